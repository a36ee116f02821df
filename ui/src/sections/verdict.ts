// The verdict: what is wrong, how much there is to gain, and what the numbers rest on.

import { h } from '../dom.ts'
import { count, digits, percent, seconds } from '../format.ts'
import { remedyShort, saves } from '../remedies.ts'
import type { WhyReport } from '../report.ts'
import { term } from '../terms.ts'
import { visible } from '../visible.ts'
import { pasteList, pasteOf } from './paste.ts'

/** The card of a diagnosis. */
export function verdictCard(why: WhyReport): HTMLElement {
  const calm = why.verdict === 'not-numa'
  if (why.verdict === 'not-known')
    return h(
      'section',
      { class: 'verdict', 'aria-label': 'Verdict' },
      h('p', { class: 'sentence' }, visible(why.sentence)),
      badges(why),
      h('p', { class: 'basis' }, visible(why.basis)),
    )
  return h(
    'section',
    { class: calm ? 'verdict calm' : 'verdict', 'aria-label': 'Verdict' },
    h('p', { class: 'sentence' }, visible(why.sentence)),
    calm ? h('p', {}, 'Nothing to do about memory: look at caches, computing and synchronisation instead.') : undefined,
    badges(why),
    h('div', { class: 'beside' }, gainBar(why), forAll(why)),
    figures(why),
    h('p', { class: 'basis' }, visible(why.basis)),
  )
}

/** The gain as a bar from its low to its high end, and the most that any placement could bring. */
function gainBar(why: WhyReport): HTMLElement {
  const { low, high } = why.gain
  // A remedy that copies pages may bring more than the bound of one copy a page.
  const most = Math.max(why.at_most, high)
  const end = Math.min(1, Math.max(most * 1.25, 0.05))
  const place = (share: number) => Math.min(100, Math.max(0, (100 * share) / end))
  const at = (share: number, name: string, ...words: (Node | string)[]) =>
    h('span', { class: name, style: `left:${place(share)}%;transform:translateX(-${place(share)}%)` }, ...words)
  const same = percent(100 * low) === percent(100 * high)
  const spoken =
    `Gain of the remedies, ${why.gain_is_of}: ${percent(100 * low)} to ${percent(100 * high)}; ` +
    `at most ${percent(100 * why.at_most)}.`
  return h(
    'div',
    { class: 'gain', role: 'group', 'aria-label': spoken },
    h(
      'p',
      { class: 'gain-of' },
      'Gain of the remedies, share of the ',
      term('modelled'),
      ` ${why.gain_is_of.replace(/^modelled /, '')}`,
    ),
    same ? undefined : at(low, 'end low', `${percent(100 * low)} in the `, term('worst case')),
    h(
      'div',
      { class: 'track', 'aria-hidden': 'true' },
      h('i', { class: 'sure', style: `width:${place(low)}%` }),
      h('i', { class: 'range', style: `left:${place(low)}%;width:${place(high) - place(low)}%` }),
      h('i', { class: 'most', style: `left:${place(why.at_most)}%` }),
    ),
    same
      ? at(high, 'end high', percent(100 * high))
      : at(high, 'end high', `${percent(100 * high)} in the `, term('best case')),
    at(why.at_most, 'end most', term('at most'), ` ${percent(100 * why.at_most)}`),
  )
}

function badges(why: WhyReport): HTMLElement {
  const words = [
    term(why.behind_caches ? 'behind caches' : 'no caches'),
    term(why.replication ? 'several copies a page' : 'one copy a page'),
    h(
      'span',
      {},
      `${count(why.trace.threads)} threads, `,
      term(why.threads_on, visible(why.threads_on)),
      `, on ${count(why.nodes_in_use)} node${why.nodes_in_use === 1 ? '' : 's'}`,
    ),
    visible(why.machine.name),
    term('modelled'),
  ]
  return h(
    'ul',
    { class: 'badges', 'aria-label': 'What the numbers rest on' },
    ...words.map((word) => h('li', {}, word)),
  )
}

/** Figures as they are and with the remedies. */
function figures(why: WhyReport): HTMLElement {
  const { elapsed, cost, traffic } = why
  const both = (title: Node | string, now: string, then: string) =>
    h(
      'div',
      {},
      h('dt', {}, title),
      h(
        'dd',
        {},
        now,
        h('span', { class: 'arrow', 'aria-hidden': 'true' }, ' → '),
        h('span', { class: 'hidden' }, ' with remedies '),
        then,
      ),
    )
  const times = elapsed
    ? [
        both(
          h('span', {}, 'time, ', term('modelled')),
          seconds(elapsed.now.seconds),
          seconds(elapsed.with_remedies.seconds),
        ),
        both(
          h('span', {}, 'of it ', term('contention')),
          seconds(elapsed.now.contention_seconds),
          seconds(elapsed.with_remedies.contention_seconds),
        ),
      ]
    : []
  return h(
    'dl',
    { class: 'tiles', 'aria-label': 'As it is, and with the remedies' },
    ...times,
    both(
      h('span', {}, 'cost, in ', term('local reference', 'local references')),
      count(cost.now),
      count(cost.with_remedies),
    ),
    both(term('non-local'), percent(traffic.now.nonlocal_percent), percent(traffic.with_remedies.nonlocal_percent)),
    both(
      h('span', {}, 'busiest memory, ', term('imbalance', 'over the mean')),
      `${digits(traffic.now.imbalance, 3)}×`,
      `${digits(traffic.with_remedies.imbalance, 3)}×`,
    ),
  )
}

/** What one remedy for all pages would do: a word on the command line. */
function forAll(why: WhyReport): HTMLElement | undefined {
  const all = why.one_remedy_for_all
  if (all.length === 0 || why.verdict === 'not-numa') return undefined
  // The command that the text output prints, nodes and all.
  const command = (one: (typeof all)[number]) => pasteOf(one).find(({ form }) => form === 'shell')?.text
  const item = (one: (typeof all)[number]) => {
    const paste = pasteList(one)
    const forms = paste && h('details', {}, h('summary', {}, 'to paste'), paste)
    return h('li', {}, h('code', {}, command(one) ?? remedyShort(one.remedy)), ` ${saves(one.saves)}`, forms)
  }
  return h(
    'div',
    { class: 'for-all' },
    h('p', {}, 'Without a change of the source, for all pages alike:'),
    h('ul', {}, ...all.map(item)),
  )
}
