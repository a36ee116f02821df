// The contents beside the page: a link for each section, the current one marked.

import { h } from './dom.ts'

/** A section with a heading and a name for links; undefined without content. */
export function part(id: string, title: string, ...content: (Node | undefined)[]): HTMLElement | undefined {
  const inside = content.filter((child) => child !== undefined)
  if (inside.length === 0) return undefined
  const heading = h('h2', { id: `${id}-title` }, title)
  return h('section', { class: 'part', id, 'aria-labelledby': heading.id, 'data-title': title }, heading, ...inside)
}

/** The list of contents. `list` makes it anew after sections came to sight or went. */
export class Contents {
  readonly element: HTMLElement
  private readonly links = h('ol')
  private readonly fold: HTMLDetailsElement

  constructor(private readonly page: HTMLElement) {
    this.fold = h('details', { open: wide() }, h('summary', {}, 'Contents'), this.links)
    this.element = h('nav', { class: 'contents', 'aria-label': 'Contents' }, this.fold)
    this.links.addEventListener('click', () => (this.fold.open = wide()))
    window.addEventListener('resize', () => (this.fold.open = wide()))
    let due = 0
    const soon = () => {
      cancelAnimationFrame(due)
      due = requestAnimationFrame(() => this.mark())
    }
    window.addEventListener('scroll', soon, { passive: true })
  }

  private parts(): HTMLElement[] {
    return [...this.page.querySelectorAll<HTMLElement>('section.part')].filter((one) => !one.closest('[hidden]'))
  }

  list(): void {
    this.links.replaceChildren(
      ...this.parts().map((one) => h('li', {}, h('a', { href: `#${one.id}` }, one.dataset.title!))),
    )
    this.mark()
  }

  /** Marks the section at the top of the window; at the page's end the last one. */
  private mark(): void {
    const parts = this.parts()
    const root = document.documentElement
    const atEnd = window.scrollY > 0 && window.innerHeight + window.scrollY >= root.scrollHeight - 2
    const above = parts.filter((one) => one.getBoundingClientRect().top < 120)
    const current = atEnd ? parts.at(-1) : (above.at(-1) ?? parts[0])
    for (const link of this.links.querySelectorAll('a')) {
      if (link.getAttribute('href') === `#${current?.id}`) link.setAttribute('aria-current', 'true')
      else link.removeAttribute('aria-current')
    }
  }
}

function wide(): boolean {
  return window.matchMedia('(min-width: 1100px)').matches
}
