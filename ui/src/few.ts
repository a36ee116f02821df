// Tables of policies that show a few of them, and all behind a switch.

import { h } from './dom.ts'
import { HOMING, named, OPTIMAL } from './roles.ts'

/** How a policy's row is marked. */
export function mark(row: { policy: string }): string | undefined {
  if (row.policy === OPTIMAL || row.policy === HOMING) return row.policy
  return named(row) ? undefined : 'other'
}

/** A table whose rows are marked ([`mark`]), with the policies that are not named behind a switch. */
export function few(element: HTMLElement, rows: readonly { policy: string }[]): HTMLElement {
  const [all, others] = [rows.length, rows.filter((row) => mark(row) === 'other').length]
  if (others === 0 || others === all) return element
  const button = h('button', { type: 'button', class: 'unfold', 'aria-pressed': 'false' }, `Show all ${all} rows`)
  const box = h('div', { class: 'few' }, button, element)
  button.addEventListener('click', () => {
    const folded = box.classList.toggle('few')
    button.setAttribute('aria-pressed', String(!folded))
    button.textContent = folded ? `Show all ${all} rows` : 'Show the named policies only'
  })
  return box
}
