// Which rows of a comparison the page speaks of, and the sentence on gaps that goes with the report's own summary.

import { percent } from './format.ts'
import type { Row } from './report.ts'

/** The name of the bound's row. */
export const OPTIMAL = 'optimal'
/** The project's own policy. */
export const HOMING = 'homing'
/** What an operating system does that never moves a page. */
export const FIRST_TOUCH = 'first-touch'

/** The policies that are shown from the start: as it is, spread, following; the bound is beside them. */
export const NAMED: readonly string[] = [FIRST_TOUCH, 'striped', HOMING]

/** The policies that are drawn even where the others are folded away. */
export function named(row: { policy: string }): boolean {
  return NAMED.includes(row.policy)
}

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
  const cheapest = others.reduce<Row | undefined>(
    (best, row) => (!best || row.cost < best.cost ? row : best),
    undefined,
  )
  return {
    optimal: rows.find((row) => row.policy === OPTIMAL),
    baseline,
    leader: others.find((row) => row.policy === HOMING) ?? cheapest,
  }
}

/** How far baseline and leader are from the bound, in cost. Empty where there is nothing to compare. */
export function gapSentence(rows: readonly Row[]): string {
  const { optimal, baseline, leader } = roles(rows)
  if (!optimal || !baseline || baseline.references === 0) return ''
  const above = (row: Row) =>
    row.gap_percent < 5e-3
      ? 'as little as the best placement'
      : `${percent(row.gap_percent)} more than the best placement`
  const text = `In total, ${baseline.policy} costs ${above(baseline)}`
  return leader ? `${text}, ${leader.policy} ${above(leader).replace(' than the best placement', '')}.` : `${text}.`
}
