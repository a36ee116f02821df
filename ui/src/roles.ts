// Which rows of a comparison the page speaks of, and the sentence on cost that goes with the report's own summary.

import { mcpr, percent } from './format.ts'
import type { Row } from './report.ts'

/** The name of the bound's row. */
export const OPTIMAL = 'optimal'
/** The project's own policy. */
export const HOMING = 'homing'
/** What an operating system does that never moves a page. */
export const FIRST_TOUCH = 'first-touch'

/** The rows that matter for a summary. */
export interface Roles {
  optimal: Row | undefined
  /** First touch, or the first policy where it was not run. */
  baseline: Row | undefined
  /** `homing`, or the cheapest policy beside the baseline where it was not run. */
  leader: Row | undefined
}

/** Picks the bound, the baseline and the policy to speak of. */
export function roles(rows: readonly Row[]): Roles {
  const policies = rows.filter((row) => row.policy !== OPTIMAL)
  const baseline = policies.find((row) => row.policy === FIRST_TOUCH) ?? policies[0]
  const others = policies.filter((row) => row !== baseline)
  const cheapest = others.reduce<Row | undefined>((best, row) => (!best || row.cost < best.cost ? row : best), undefined)
  return {
    optimal: rows.find((row) => row.policy === OPTIMAL),
    baseline,
    leader: others.find((row) => row.policy === HOMING) ?? cheapest,
  }
}

/** The result in cost: baseline, bound, leader, gap and the share recovered. Empty where there is nothing to compare. */
export function costSentence(rows: readonly Row[]): string {
  const { optimal, baseline, leader } = roles(rows)
  if (!baseline || !optimal || baseline.references === 0) return ''
  let text = `A reference costs ${mcpr(baseline.mcpr)} local references on average under ${baseline.policy} and ${mcpr(optimal.mcpr)} at best`
  if (leader) text += `; ${leader.policy} costs ${mcpr(leader.mcpr)}, ${percent(leader.gap_percent)} above the best`
  if (baseline.gap_percent <= 1e-9) return `${text}. ${baseline.policy} is already as cheap as any policy could be.`
  const share = leader?.recovered_percent
  if (share === undefined) return `${text}.`
  if (share < 0) return `${text}: it costs more than ${baseline.policy}.`
  return `${text}: it recovers ${percent(share)} of what can be gained.`
}
