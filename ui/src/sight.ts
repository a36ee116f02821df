// Work that waits until its place in the page comes to sight.

/** Pixels around the window that count as in sight. */
const NEAR = '500px'

const waiting = new Map<Element, () => void>()
let watch: IntersectionObserver | undefined

/** Runs `work` once when the element is near the window; hidden ones wait. */
export function inSight(element: Element, work: () => void): void {
  watch ??= new IntersectionObserver(
    (entries) => {
      for (const entry of entries) if (entry.isIntersecting) begin(entry.target)
    },
    { rootMargin: `${NEAR} 0px` },
  )
  waiting.set(element, work)
  // Anew: an element that is in sight already is reported again.
  watch.unobserve(element)
  watch.observe(element)
}

function begin(element: Element): void {
  const work = waiting.get(element)
  if (work === undefined) return
  waiting.delete(element)
  watch!.unobserve(element)
  work()
}

/** Does all that waits inside an element: before printing. */
export function all(root: HTMLElement): void {
  for (const element of [...waiting.keys()]) if (root.contains(element)) begin(element)
}
