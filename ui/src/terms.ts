// Words of the field with what they mean, where they stand.

import { h } from './dom.ts'

/** What the words mean. The glossary at the page's end has those that are not here. */
export const TERMS = {
  avoidable: 'what references cost beyond the cheapest placement that moves may reach, as a share of all such cost',
  'non-local': 'served by the memory of another node than the requester’s',
  saves:
    'the share of the modelled time that the remedy of this area saves, or of the cost of memory references where ' +
    'times are not known, with the remedies of the areas above in place',
  'accessed by': 'references, by the node whose CPUs make them',
  'first touched by': 'pages, by the node of the thread that touched them first',
  'resident on': 'pages, by the node that holds them',
  'best on': 'pages, by the single node where they cost least',
  cause: 'why the remedy helps',
  'at most': 'no placement of one copy a page brings more: from the best start, with the cheapest moves',
  modelled: 'computed from the machine’s costs and times and the recorded references, not measured',
  'behind caches': 'references went through the machine’s caches first: only what reached memory counts',
  'no caches': 'every reference counts as if there were no caches, which overstates the cost of memory',
  'one copy a page': 'pages have one copy, which programs without a change of their source have',
  'several copies a page': 'pages that are only read may have a copy on each node',
  busy: 'threads that work at the same time take turns over the nodes, whatever their numbers are',
  'round-robin': 'threads take turns over the nodes: thread 0 on node 0, thread 1 on node 1, and so on',
  fill: 'threads fill the CPUs of node 0 first, then those of node 1, and so on',
  'one-per-node': 'thread i runs on node i',
  'worst case': 'the least that was simulated: with contention or without, threads in turn over nodes or in blocks',
  'best case': 'the most that was simulated: with contention or without, threads in turn over nodes or in blocks',
  contention: 'waiting for memories and links that others use at the same time',
  imbalance: 'what the busiest memory serves over what the mean one serves; 1 if all serve the same',
  private: 'one node makes all references, but at most one in a thousand',
  'read-shared': 'several nodes read it; hardly a write after the first node’s',
  migratory: 'several nodes read and write it, one after the other, in long runs',
  'producer-consumer': 'one node writes it, others read it',
  'write-shared': 'several nodes write it, finely mixed',
  'falsely-shared': 'several nodes use its pages, but each its own lines of them',
  'local reference': 'a reference that the requester’s own memory serves: the unit of cost',
} as const

/** A word with an explanation. */
export type Term = keyof typeof TERMS

/** A word that says what it means: on hover, on focus, and to screen readers. Unknown words stay plain. */
export function term(word: string, shown: string = word): HTMLElement | string {
  const means = (TERMS as Record<string, string>)[word]
  if (means === undefined) return shown
  return h('abbr', { class: 'term', title: means, tabindex: 0, 'aria-label': `${shown}: ${means}` }, shown)
}

/** Shows the meaning of a word that a finger taps or the keyboard reaches, where the browser shows no title. */
export function explainTerms(page: HTMLElement): void {
  const tip = h('div', { class: 'tip meaning', hidden: true, 'aria-hidden': 'true' })
  page.append(tip)
  const show = (event: Event) => {
    const word = (event.target as Element | null)?.closest?.('abbr.term')
    tip.hidden = word === null || word === undefined || event.type === 'focusout'
    if (tip.hidden) return
    tip.textContent = word!.getAttribute('title')
    const [at, size] = [word!.getBoundingClientRect(), tip.getBoundingClientRect()]
    const left = Math.min(at.left, document.documentElement.clientWidth - size.width - 8)
    const below = at.bottom + 6
    tip.style.left = `${Math.max(8, left)}px`
    tip.style.top = `${below + size.height > window.innerHeight ? at.top - size.height - 6 : below}px`
  }
  for (const type of ['focusin', 'focusout', 'click']) page.addEventListener(type, show)
  window.addEventListener('scroll', () => (tip.hidden = true), { passive: true })
}
