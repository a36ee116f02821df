// Which line of which file the data of an area comes from. Areas are named after their call sites:
// `new_pages (common.h:134) < make_matrix (cg.c:53) < main (cg.c:169)`. Pure functions.

import type { AreaReport } from './report.ts'

/** A call site. */
export interface Frame {
  function: string
  file: string
  line: number
}

const FRAME = /^(.*) \(([^()]*):(\d+)\)$/

/** The call sites in an area's name, the innermost first; none if it is not named after any. */
export function frames(name: string | undefined): Frame[] {
  if (name === undefined) return []
  const found = name.split(' < ').map((part) => FRAME.exec(part))
  return found.every((match) => match !== null)
    ? found.map((match) => ({ function: match![1]!, file: match![2]!, line: Number(match![3]) }))
    : []
}

const key = (frame: Frame) => `${frame.file}:${frame.line}`

/** A line of a source file, and what it allocates. */
export interface Line {
  file: string
  line: number
  functions: string[]
  areas: AreaReport[]
  avoidable: number
  cost: number
  references: number
  bytes: number
}

/** A source file. */
export interface File {
  file: string
  lines: Line[]
  avoidable: number
  cost: number
}

/** What an area costs beyond its bound. */
export function avoidable(area: AreaReport): number {
  return Math.max(area.cost.now - area.cost.bound, 0)
}

/**
 * The files by falling avoidable cost, with their lines in order; and the areas that no line is known of. An area
 * counts at its innermost call site, but for wrappers: a site that several callers allocate by counts at these.
 */
export function sources(areas: readonly AreaReport[]): { files: File[]; elsewhere: AreaReport[] } {
  const named = areas.map((area) => ({ area, chain: frames(area.name) }))
  const callers = new Map<string, Set<string>>()
  for (const { chain } of named)
    chain.forEach((frame, i) => {
      const next = chain[i + 1]
      const set = callers.get(key(frame)) ?? new Set()
      callers.set(key(frame), set.add(next ? key(next) : ''))
    })
  const lines = new Map<string, Line>()
  for (const { area, chain } of named) {
    const site = chain.find((frame) => callers.get(key(frame))!.size === 1) ?? chain.at(-1)
    if (!site) continue
    const line = lines.get(key(site)) ?? newLine(site)
    lines.set(key(site), add(line, site, area))
  }
  return { files: byFile([...lines.values()]), elsewhere: named.filter((n) => n.chain.length === 0).map((n) => n.area) }
}

function newLine({ file, line }: Frame): Line {
  return { file, line, functions: [], areas: [], avoidable: 0, cost: 0, references: 0, bytes: 0 }
}

function add(line: Line, site: Frame, area: AreaReport): Line {
  if (!line.functions.includes(site.function)) line.functions.push(site.function)
  line.areas.push(area)
  line.avoidable += avoidable(area)
  line.cost += area.cost.now
  line.references += area.references
  line.bytes += area.bytes
  return line
}

function byFile(lines: readonly Line[]): File[] {
  const files = new Map<string, File>()
  for (const line of lines) {
    const file = files.get(line.file) ?? { file: line.file, lines: [], avoidable: 0, cost: 0 }
    file.lines.push(line)
    file.avoidable += line.avoidable
    file.cost += line.cost
    files.set(line.file, file)
  }
  for (const file of files.values()) file.lines.sort((a, b) => a.line - b.line)
  return [...files.values()].sort((a, b) => b.avoidable - a.avoidable || (a.file < b.file ? -1 : 1))
}
