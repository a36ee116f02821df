// Made-up reports for the tests, shaped like real ones: a FIXTURE, no measurement. The same options give the same
// report.

import type {
  ClassRow,
  Counts,
  Curve,
  CurvePoint,
  MachineInfo,
  MeanRow,
  PageMap,
  Region,
  Report,
  Row,
  SizeRow,
  TraceInfo,
  TraceReport,
} from '../src/report.ts'
import { fixtureWhy } from './fixture-why.ts'

/** What a made-up report is like. */
export interface Options {
  traces?: number
  policies?: string[]
  nodes?: number
  pages?: number
  global?: boolean
  general?: boolean
  /** Multiplies all counts of references. */
  scale?: number
  /** All policies are as cheap as the optimum. */
  flat?: boolean
  /** Leaves out what a report need not have. */
  bare?: boolean
  /** Leaves out the diagnosis, as reports of earlier versions do. */
  noWhy?: boolean
}

export const POLICIES = [
  'first-touch',
  'round-robin',
  'single-node',
  'striped',
  'worst-static',
  'best-static',
  'ace',
  'platinum',
  'delay',
  'homing',
]
const CLASSES = ['private', 'read-shared', 'migratory', 'producer-consumer', 'write-shared']
const AREAS = [
  'grid',
  'coefficients',
  'make_grid (sor.c:42) < main (sor.c:98)',
  'rhs',
  'stack of thread 1',
  'libgomp.so data',
]

/** Numbers that look random (mulberry32), from a seed. */
export function random(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

/** Share of remote references and moves a page of a policy, at a machine's page-move cost. */
function behaviour(policy: string, index: number): { far: number; moves: number } {
  const known: Record<string, [number, number]> = {
    optimal: [0.09, 1.4],
    homing: [0.11, 1.6],
    'first-touch': [0.68, 0],
    'best-static': [0.42, 0],
    'round-robin': [0.75, 0],
    'single-node': [0.74, 0],
    striped: [0.75, 0],
    'worst-static': [0.97, 0],
    ace: [0.4, 0.9],
    platinum: [0.3, 2.2],
    delay: [0.21, 2.5],
  }
  const [far, moves] = known[policy] ?? [0.2 + ((index * 37) % 70) / 100, (index % 7) / 2]
  return { far, moves }
}

function row(policy: string, index: number, options: Required<Options>, references: number): Row {
  const far = options.flat ? behaviour('optimal', 0).far : behaviour(policy, index).far
  const movesPerPage = options.flat ? 1.4 : behaviour(policy, index).moves
  const remote = Math.round(references * (options.nodes === 1 ? 0 : far))
  const global = options.global ? Math.round(remote * 0.4) : 0
  const moves = options.nodes === 1 ? 0 : Math.round(movesPerPage * options.pages)
  const copyCost = moves * 3272
  const local = references - remote
  const cost = local + (remote - global) * 15 + global * 4 + copyCost
  return {
    policy,
    machine: 'fixture-machine',
    references,
    cost,
    mcpr: references ? cost / references : 0,
    local,
    remote: remote - global,
    global,
    moves,
    replications: options.global ? Math.round(moves / 3) : 0,
    nonlocal_percent: references ? (100 * remote) / references : 0,
    optimal_cost: 0,
    gap_percent: 0,
    pages: options.pages,
    seconds: 0.01 + index / 50,
    copy_cost: copyCost,
    moves_per_page: options.pages ? moves / options.pages : 0,
  }
}

function rows(options: Required<Options>, references: number): Row[] {
  const all = ['optimal', ...options.policies].map((policy, i) => row(policy, i, options, references))
  const best = all[0]!.cost
  const first = all.find((r) => r.policy === 'first-touch')?.cost
  for (const r of all) {
    r.optimal_cost = best
    r.gap_percent = best ? (100 * (r.cost - best)) / best : 0
    if (first !== undefined && first > best) r.recovered_percent = (100 * (first - r.cost)) / (first - best)
  }
  return all
}

function pageMap(options: Required<Options>, seed: number): PageMap {
  const next = random(seed)
  const { pages, nodes } = options
  const pick = () => Math.floor(next() * nodes)
  const map: PageMap = {
    pages,
    shown: pages,
    vaddr: [],
    references: [],
    class: [],
    initial: [],
    most_frequent: [],
    last: [],
    policy: options.policies.includes('homing') ? 'homing' : (options.policies.at(-1) ?? ''),
    optimal: [],
    by_node: [],
    areas: [],
    area: [],
  }
  const [byNode, area]: [number[][], number[]] = [[], []]
  for (let page = 0; page < pages; page += 1) {
    const part = Math.min(Math.floor((page / pages) * AREAS.length), AREAS.length - 1)
    const owner = Math.floor(((page % Math.ceil(pages / AREAS.length)) / Math.ceil(pages / AREAS.length)) * nodes)
    const uses = Array.from({ length: nodes }, (_, node) =>
      Math.floor(next() * (node === owner ? 5000 : 400) * options.scale),
    )
    map.vaddr.push(`0x${(0x7f0000000000n + BigInt(part) * 0x10000000n + BigInt(page) * 4096n).toString(16)}`)
    map.references.push(uses.reduce((a, b) => a + b, 0))
    map.class.push(part % CLASSES.length)
    map.initial.push(part === 0 ? 0 : next() < 0.6 ? 0 : pick())
    map.most_frequent.push(owner)
    map.optimal.push(owner)
    map.last.push(next() < 0.95 ? owner : pick())
    byNode.push(uses)
    area.push(part)
  }
  return options.bare ? map : { ...map, by_node: byNode, areas: AREAS, area }
}

function sharing(options: Required<Options>, map: PageMap): ClassRow[] {
  const total = map.references.reduce((a, b) => a + b, 0)
  return CLASSES.map((name, index) => {
    const members = map.class.flatMap((c, page) => (c === index ? [map.references[page]!] : []))
    const references = members.reduce((a, b) => a + b, 0)
    return {
      class: name,
      pages: members.length,
      references,
      reads: references - Math.floor(references / 3),
      writes: Math.floor(references / 3),
      references_percent: total ? (100 * references) / total : 0,
      optimal_cost: references * 2,
      first_touch_cost: references * 9,
      ...(options.bare ? {} : { homing_cost: references * 2.2 }),
    }
  })
}

function point(x: number, far: number, copies: number, moves: number): CurvePoint {
  return { x, mcpr: 1 + 14 * far + copies, local: 1 - far, remote: 15 * far, global: 0, copies, moves_per_page: moves }
}

function curves(options: Required<Options>): Curve[] {
  const breaks = Array.from({ length: 40 }, (_, i) => 100 * 1.12 ** i)
  const optimal = breaks.map((x) => point(x, 0.09 + 0.12 * Math.sqrt(x / 9000), 0.2 * Math.sqrt(x / 9000), 400 / x))
  const samples = [100, 400, 1600, 6400]
  const line = (policy: string, index: number) => {
    const { far, moves } = behaviour(policy, index)
    return { policy, exact: false, points: samples.map((x) => point(x, far, (moves * x) / 9000, moves)) }
  }
  const sizes = [512, 1024, 2048, 4096, 16384, 65536, 2097152]
  return [
    {
      parameter: 'page-move',
      unit: 'local references',
      here: 3272,
      series: [{ policy: 'optimal', exact: true, points: optimal }, ...options.policies.map(line)],
    },
    {
      parameter: 'page-size',
      unit: 'bytes',
      here: 4096,
      series: ['optimal', ...options.policies].map((policy, i) => ({
        policy,
        exact: false,
        points: sizes.map((x) =>
          point(x, Math.min(behaviour(policy, i).far * (1 + Math.log2(x / 512) / 24), 1), 0.1, 1),
        ),
      })),
    },
  ]
}

function pageSizes(all: readonly Row[]): SizeRow[] {
  return [4096, 65536, 2097152].flatMap((size, index) =>
    all.map((row) => ({
      ...row,
      page_size: size,
      mcpr: row.mcpr * (1 + index / 8),
      tlb_misses: Math.round(row.references / 50 / 8 ** index),
    })),
  )
}

function split(): Region[] {
  return [3, 2, 1].map((saved) => ({
    address: 0x7f0000000000 + saved * 0x200000,
    references: 90000 * saved,
    pages: 100 * saved,
    nodes: saved + 1,
    whole_cost: 800000 * saved,
    split_cost: 200000 * saved,
  }))
}

function caches(references: number): Counts {
  const part = (share: number) => Math.round(references * share)
  return {
    references: part(20),
    lines: part(20.5),
    l1_misses: part(4),
    l2_misses: part(2),
    l3_hits: part(1),
    fetches_read: part(0.7),
    fetches_write: part(0.3),
    interventions: part(0.05),
    upgrades: part(0.02),
    invalidations: part(0.03),
    write_backs: part(0.2),
    tlb1_misses: part(0.1),
    tlb_misses: part(0.02),
    shootdowns: 0,
  }
}

function trace(index: number, options: Required<Options>, machine: MachineInfo): TraceReport {
  const map = pageMap(options, index + 1)
  const references = map.references.reduce((a, b) => a + b, 0)
  const all = rows(options, references)
  const further = options.bare
    ? {}
    : {
        further_levels: all
          .slice(1)
          .map((row) => ({ ...row, information: 'every:64', gap_percent: row.gap_percent * 1.2 })),
        page_sizes: pageSizes(all.map((row) => ({ ...row, information: 'perfect' }))),
        split: split(),
      }
  const info: TraceInfo = {
    name: `fixture-${index}`,
    digest: `00f1c7e5${index.toString(16).padStart(8, '0')}`,
    command: ['./build/workloads/sor-cols', '-n', String(512 + index), '--label', 'a <b> "c"'],
    recorder: 'fixture generator',
    references,
    reads: references - Math.floor(references / 3),
    writes: Math.floor(references / 3),
    threads: options.nodes,
    pages: options.pages,
    complete: index % 2 === 0,
    ...(options.bare ? {} : { caches: caches(references) }),
  }
  return {
    trace: info,
    ...(options.bare || options.noWhy ? {} : { why: fixtureWhy(map, machine, info, options.nodes) }),
    summary:
      '68 % of references are remote under first-touch; the best any policy could do is 9 %; homing reaches 11 %.',
    rows: all.map((row, i) => (options.bare || i === 0 ? row : { ...row, information: 'perfect' })),
    ...further,
    sharing: sharing(options, map),
    page_map: map,
    curves: options.bare ? [] : curves(options),
    perturbation: options.bare
      ? []
      : [
          { filter: 'local', seed: 1, optimal_cost: references * 2.002, change_percent: 0.0004 },
          { filter: 'gaps', seed: 1, optimal_cost: references * 1.99, change_percent: -0.72 },
        ],
  }
}

/** A made-up report. */
export function fixture(given: Options = {}): Report {
  const options: Required<Options> = {
    traces: 1,
    policies: POLICIES,
    nodes: 4,
    pages: 3000,
    global: false,
    general: false,
    scale: 1,
    flat: false,
    bare: false,
    noWhy: false,
    ...given,
  }
  const memories = options.nodes + (options.global ? 1 : 0)
  const far = Array.from({ length: memories }, (_, i) =>
    Array.from({ length: memories }, (_, m) => (i === m ? 1 : 1.5 + Math.abs(i - m) / 4)),
  )
  const machine: MachineInfo = {
    name: 'fixture-machine',
    description: 'A made-up machine.',
    memories,
    page_size: 4096,
    ...(options.global ? { global_node: options.nodes, global: 4, global_page_move: 2000 } : {}),
    ...(options.general ? { access: far, copy: far } : { remote: 15, page_move: 3272 }),
  }
  const traces = Array.from({ length: options.traces }, (_, i) => trace(i, options, machine))
  const means: MeanRow[] =
    options.traces < 2
      ? []
      : traces[0]!.rows.map((r) => ({
          policy: r.policy,
          mcpr: r.mcpr,
          gap_percent: r.gap_percent,
          worst_gap_percent: r.gap_percent * 1.4,
          worst_trace: traces.at(-1)!.trace.name,
        }))
  return {
    schema: 1,
    generator: 'homing 0.1.0 (fixture, made up for a test)',
    machine,
    parameters: options.bare
      ? []
      : [
          { name: 'placement', value: 'first-touch' },
          { name: 'platinum.t1', value: '10000' },
        ],
    traces,
    means,
    notes: options.bare ? [] : ['This report is made up for a test of the page; it measures nothing.'],
  }
}
