// What changed, in words. Pure functions.

import { count, percent } from './format.ts'
import type { AreaChange, Change } from './report-types.ts'

/** (after - before) / before in words, with its sign. */
export function share({ before, after }: Change): string {
  if (before === after) return 'same'
  if (before === 0) return 'from none'
  const change = (100 * (after - before)) / before
  // As the program's text rounds.
  return Math.abs(change) < 0.05 ? 'same' : `${change > 0 ? '+' : ''}${percent(change)}`
}

/** A difference of costs with its sign. */
export function signed(change: number): string {
  return `${change > 0 ? '+' : change < 0 ? '−' : ''}${count(Math.abs(change))}`
}

/** What became of an area, in words. */
export function became(area: AreaChange): string {
  if (!area.before) return 'new'
  if (!area.after) return 'went away'
  return share({ before: area.before.cost, after: area.after.cost })
}
