// The parts of the page that are text: header, provenance, perturbation, notes and the glossary.

import { h, table } from '../dom.ts'
import { bytes, clip, commandLine, count, digits, integer, percent } from '../format.ts'
import type { MachineInfo, PerturbationRow, Report, TraceInfo, TraceReport } from '../report.ts'
import { gapSentence } from '../roles.ts'
import { visible } from '../visible.ts'

/** A definition list of named facts; those without a value are left out. */
function facts(pairs: [string, string | undefined][], name: string): HTMLElement {
  const items = pairs.filter((pair): pair is [string, string] => pair[1] !== undefined && pair[1] !== '')
  return h(
    'dl',
    { class: name },
    ...items.map(([term, text]) => h('div', {}, h('dt', {}, term), h('dd', {}, visible(text)))),
  )
}

/** The program's name: its command's file name with the arguments, or the trace's name. */
export function programName(trace: TraceInfo): string {
  const [program, ...rest] = trace.command
  if (!program) return visible(trace.name)
  return clip(visible(commandLine([program.split('/').at(-1) || program, ...rest])), 80)
}

/** The machine in a few words. */
export function machineLine(machine: MachineInfo): string {
  const nodes = machine.memories - (machine.global_node === undefined ? 0 : 1)
  const text = [
    `${integer(nodes)} node${nodes === 1 ? '' : 's'}${machine.global_node === undefined ? '' : ' and global memory'}`,
  ]
  if (machine.remote !== undefined) text.push(`a remote reference costs ${digits(machine.remote, 4)}`)
  if (machine.global !== undefined) text.push(`one to global memory ${digits(machine.global, 4)}`)
  if (machine.page_move !== undefined) text.push(`moving a page ${digits(machine.page_move, 4)} local references`)
  if (machine.global_page_move !== undefined)
    text.push(`${digits(machine.global_page_move, 4)} to or from global memory`)
  if (machine.access && machine.access.length > 0) {
    const far = machine.access.flat().filter((cost) => cost > 1)
    if (far.length > 0)
      text.push(`references to other nodes cost ${digits(Math.min(...far), 4)} to ${digits(Math.max(...far), 4)}`)
  }
  return text.join(', ')
}

/** The page's header. */
export function header(report: Report): HTMLElement {
  const { machine, traces } = report
  const title = traces.length === 1 ? programName(traces[0]!.trace) : `${traces.length} traces`
  document.title = `${title} on ${machine.name} – Homing`
  return h(
    'header',
    {},
    h('p', { class: 'kicker' }, 'Where memory pages should be'),
    h('h1', {}, h('span', { class: 'program' }, title), ' on ', h('span', { class: 'machine' }, machine.name)),
    h(
      'p',
      { class: 'machine-line' },
      [machine.description.replace(/\.$/, ''), machineLine(machine), `pages of ${bytes(machine.page_size)}`]
        .filter(Boolean)
        .join(' · '),
    ),
  )
}

/** The result in words. */
export function summary(trace: TraceReport): HTMLElement {
  const gaps = gapSentence(trace.rows)
  return h(
    'section',
    { class: 'summary' },
    h('p', { class: 'sentence' }, ...marked(trace.summary)),
    gaps ? h('p', { class: 'gaps' }, gaps) : undefined,
  )
}

/** A text in which `names` in backquotes are set as code. */
function marked(text: string): (Node | string)[] {
  return text.split('`').map((part, i) => (i % 2 === 1 ? h('code', {}, part) : part))
}

/** Size of the trace, and where it comes from. */
export function provenance(trace: TraceInfo, machine: MachineInfo): HTMLElement {
  const share = trace.references > 0 ? ` (${percent((100 * trace.writes) / trace.references)} writes)` : ''
  const sizes = facts(
    [
      ['References', count(trace.references) + share],
      ['Threads', integer(trace.threads)],
      ['Pages', count(trace.pages)],
      ['Footprint', bytes(trace.pages * machine.page_size)],
    ],
    'tiles',
  )
  const origin = facts(
    [
      ['Command', commandLine(trace.command)],
      ['Trace', trace.name],
      ['Digest', trace.digest],
      ['Recorder', trace.recorder],
      ['Recording', trace.complete ? 'complete' : undefined],
    ],
    'origin',
  )
  const warning = trace.complete
    ? undefined
    : h(
        'p',
        { class: 'warning', role: 'note' },
        'The recording was cut or parts of it were damaged: all figures are of the part that is left.',
      )
  return h('section', { class: 'provenance' }, ...(warning ? [warning] : []), sizes, origin)
}

/** How much the order of references matters. */
export function perturbationSection(rows: readonly PerturbationRow[]): HTMLElement {
  const element = table(
    rows,
    [
      { title: 'Filter', value: (row) => row.filter, text: (row) => row.filter },
      { title: 'Seed', value: (row) => row.seed, text: (row) => String(row.seed) },
      { title: 'Optimal cost', value: (row) => row.optimal_cost, text: (row) => integer(row.optimal_cost) },
      {
        title: 'Change',
        help: '(disturbed - recorded) / recorded',
        value: (row) => row.change_percent,
        text: (row) => (row.change_percent > 0 ? '+' : '') + percent(row.change_percent),
      },
    ],
    { caption: 'Change of the optimal cost when the order of references is disturbed' },
  )
  return h(
    'section',
    { 'data-chart': 'perturbation' },
    h('h3', {}, 'How much the order matters'),
    h(
      'p',
      {},
      'The order of references is that of one run. “local” reorders neighbours, “gaps” holds a thread back now and ' +
        'then; a small change means that the result does not hang on the order.',
    ),
    element,
  )
}

/** Notes, and which numbers are modelled. */
export function notes(report: Report): HTMLElement {
  const own = [
    'Measured: the references, their order, threads and pages come from the recorded run; the seconds in the table ' +
      'are the time that computing a row took.',
    'Modelled: every cost, MCPR and gap follows from the machine’s cost model, not from a clock on that machine.',
  ]
  const list = h(
    'ul',
    {},
    ...[...own, ...report.notes, ...ofDiagnoses(report)].map((text) =>
      h('li', {}, text.charAt(0).toUpperCase() + text.slice(1)),
    ),
  )
  const parameters =
    report.parameters.length === 0
      ? undefined
      : h(
          'details',
          {},
          h('summary', {}, `All ${report.parameters.length} parameters`),
          table(
            report.parameters,
            [
              { title: 'Parameter', value: (p) => p.name, text: (p) => p.name },
              { title: 'Value', value: (p) => p.value, text: (p) => p.value },
            ],
            { caption: 'Every parameter of the run, with defaults' },
          ),
        )
  return h(
    'div',
    { class: 'notes' },
    list,
    parameters,
    h('p', { class: 'version' }, `Written by ${report.generator}, report schema ${report.schema}.`),
  )
}

/** What the diagnoses add: what they rest on, and their notes. */
function ofDiagnoses(report: Report): string[] {
  const all = report.traces.flatMap(({ why }) => (why ? [why.basis, ...why.notes] : []))
  return [...new Set(all)].filter((note) => !report.notes.includes(note)).map(visible)
}

const WORDS: [string, string][] = [
  ['node', 'a memory with zero or more processors. Global memory is a node that is equally far from all processors.'],
  ['home', 'the node that holds a page now; a page may have replicas on further nodes while it is only read.'],
  ['reference', 'one data access by a thread.'],
  ['local, remote', 'served by the requester’s own node, or by another one.'],
  [
    'MCPR',
    'mean cost per reference: total cost divided by references, in units of one local reference; 1 is all-local.',
  ],
  [
    'optimum',
    'the least cost of any placement, found with knowledge of all future references. No policy can be below it.',
  ],
  ['gap', '(cost − optimal cost) / optimal cost.'],
  [
    'recovered',
    'the share of the difference between first touch and the optimum that a policy saves; 100 % is the optimum.',
  ],
  ['non-local', 'references served by another node than the requester’s, of all.'],
  ['first touch', 'a page is placed at the node that uses it first, and stays.'],
  ['move, replication', 'a page is copied to a new home and the old copy dropped, or kept beside it.'],
  ['break-point', 'a value of the page-move cost at which the optimal placement changes.'],
]

/** What the words mean. */
export function glossary(): HTMLElement {
  const items = WORDS.map(([word, text]) => h('div', {}, h('dt', {}, word), h('dd', {}, text)))
  return h('div', { class: 'glossary' }, h('dl', {}, ...items))
}
