// Shares of nodes as a stacked bar, and in words.

import { h } from './dom.ts'
import { count, percent } from './format.ts'
import { nodeColour } from './palette.ts'
import type { MachineInfo } from './report.ts'

/** A node and its part of something. */
export interface Part {
  node: number
  count: number
  share: number
}

/** The nodes that have any of it, most first. */
export function parts(counts: readonly number[]): Part[] {
  const all = counts.reduce((sum, count) => sum + count, 0)
  return counts
    .map((count, node) => ({ node, count, share: all > 0 ? count / all : 0 }))
    .filter((part) => part.count > 0)
    .sort((a, b) => b.count - a.count || a.node - b.node)
}

/** Which nodes have most of something, in few words; as the program says it. */
export function inWords(counts: readonly number[]): string {
  const sorted = parts(counts)
  const [first] = sorted
  if (!first) return '–'
  if (first.share >= 0.95) return `node ${first.node}`
  const even = sorted.length === counts.length && sorted.at(-1)!.count * 4 >= first.count * 3
  if (even) return 'all evenly'
  const shown = sorted.slice(0, 3).filter((part) => part.share >= 0.005)
  // Within a part the line does not break.
  const words = shown.map((part) => `${part.node}:\u00a0${percent(Math.round(100 * part.share))}`)
  return words.join(', ') + (sorted.length > shown.length ? ', …' : '')
}

/** A bar of the nodes' shares in the order of the nodes, with the words beside. */
export function nodeBar(counts: readonly number[], machine: MachineInfo, what: string): HTMLElement {
  const found = parts(counts).sort((a, b) => a.node - b.node)
  const text = found.map((part) => `node ${part.node} ${percent(100 * part.share)} (${count(part.count)})`).join(', ')
  const bars = found.map((part) => {
    const colour = nodeColour(part.node, machine.memories, machine.global_node)
    return h('i', { style: `flex-grow:${Math.max(part.share, 0.004)};background:${colour}` })
  })
  return h(
    'span',
    { class: 'node-bar', title: `${what}: ${text || 'none'}` },
    h('span', { class: 'bar', 'aria-hidden': 'true' }, ...bars),
    h('span', {}, inWords(counts)),
  )
}
