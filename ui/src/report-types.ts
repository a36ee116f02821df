// The shape of the data that the page shows: what `homing compare --json` prints and `--html` embeds.
// Made from crates/homing-core/src/report.rs, report/why.rs and report/diff.rs by `make ui-data`; not to be edited.

/** An area in both diagnoses, or in one. */
export type AreaChange = {
  /** Its name, the later one if lines differ; absent for pages of which nothing is known. */
  name?: string,
  /** Its name in the first diagnosis, where that is another. */
  name_before?: string,
  /** In the first diagnosis; absent for a new area. */
  before?: AreaSide,
  /** In the second; absent for one that went away. */
  after?: AreaSide,
  /** What its references cost afterwards less what they cost before, in local references. */
  change: number,
};

/** What an area's references cost, in local references. */
export type AreaCost = {
  /** As pages are. */
  now: number,
  /** Each page at its best node. */
  best_static: number,
  /** Pages spread over all nodes. */
  spread: number,
  /** With the best start and the cheapest moves. */
  bound: number,
  /** The least of that and of what laying its data out anew could bring. */
  least: number,
};

/** An area of data with what is wrong with it. Columns by node are indexed by node. */
export type AreaReport = {
  /** Its name; absent for pages of which nothing is known. */
  name?: string,
  /** Of an allocation: the call stack that allocated most of it, the innermost frame first. */
  stack?: Array<string>,
  /** Areas of libraries and of the loader that come together in this one; 0 for all but `other`. */
  areas_folded: number,
  /** Its pages. */
  pages: number,
  /** Bytes of these. */
  bytes: number,
  /** References. */
  references: number,
  /** Writes among them. */
  writes: number,
  /** References by the node that makes them. */
  references_by_node: Array<number>,
  /** Pages by the node that first touched them. */
  pages_made_by_node: Array<number>,
  /** Pages by the node where they are. */
  pages_on_node: Array<number>,
  /** Pages by the node where they cost least. */
  pages_best_on_node: Array<number>,
  /** `falsely-shared` if most of its references are to pages whose lines belong to one node each; else the sharing
   * class that has most of its references. */
  class: string,
  /** 100 * references to pages that are falsely shared / references. */
  falsely_shared_percent: number,
  /** References by sharing class. */
  sharing: Array<ClassReferences>,
  /** What its lines do, if several nodes write it. */
  lines?: LinesReport,
  /** What its references cost. */
  cost: AreaCost,
  /** 100 * what it costs beyond its bound / that of all areas. */
  avoidable_percent: number,
  /** What is wrong with it, if a remedy pays. */
  cause?: Cause,
  /** The remedy, if one pays. */
  remedy?: RemedyReport,
  /** Who uses its pages when, if it is among the areas with most to avoid. */
  timeline?: AreaTimeline,
};

/** What is said of an area in one diagnosis. */
export type AreaSide = {
  /** Bytes of its pages. */
  bytes: number,
  /** References. */
  references: number,
  /** What these cost, in local references. */
  cost: number,
  /** ... beyond the bound. */
  avoidable_cost: number,
  /** What is wrong with it, if a remedy pays. */
  cause?: Cause,
  /** The remedy, if one pays. */
  remedy?: Remedy,
};

/** Who uses the pages of an area in each interval. */
export type AreaTimeline = {
  /** The address of each cell's first page, in order of address. */
  cells: Array<string>,
  /** Pages that a cell stands for; the last may have fewer. */
  pages_per_cell: number,
  /** Pages that share their cell with the page before. */
  pages_folded: number,
  /** An entry for each interval, which has a word for each cell: the node that uses it most, with `+` behind it if
   * others use it too, or `.` if nobody does. `x8` behind a word: eight cells like this. */
  users: Array<string>,
};

/** What is wrong with an area, or with the program. */
export type Cause =
  | "initialised-by-one-thread"
  | "initialised-by-others"
  | "shared-by-all"
  | "read-shared"
  | "used-in-turn"
  | "falsely-shared-pages"
  | "shared-huge-pages"
  | "falsely-shared-lines"
  | "contended-lines"
  | "one-node-congested"
  | "threads-wander"
  | "bindings-wrong"
  | "unmovable"
  | "balancing-costs"
  | "not-numa"
  | "not-known";

/** A figure before and after. */
export type Change = {
  /** In the first diagnosis. */
  before: number,
  /** In the second. */
  after: number,
};

/** References of one sharing class. */
export type ClassReferences = {
  /** `private`, `read-shared`, `migratory`, `producer-consumer` or `write-shared`. */
  class: string,
  /** References to pages of that class. */
  references: number,
};

/** Pages and references of one sharing class (docs/policies.md has the definitions). */
export type ClassRow = {
  /** `private`, `read-shared`, `migratory`, `producer-consumer` or `write-shared`. */
  class: string,
  /** Pages of the class. */
  pages: number,
  /** References to them. */
  references: number,
  /** Reads among those. */
  reads: number,
  /** Writes among those. */
  writes: number,
  /** 100 * references of the class / all references. */
  references_percent: number,
  /** Cost of the optimum on these pages. */
  optimal_cost: number,
  /** Cost of first touch on these pages. */
  first_touch_cost: number,
  /** Cost of the policy `homing` on these pages, if it was compared. */
  homing_cost?: number,
};

/** Counts of one CPU, or of all together. */
export type Counts = {
  /** References; one that crosses a line counts once. */
  references: number,
  /** Lines asked of the first level (a reference that crosses lines asks for each). */
  lines: number,
  /** Lines that the first level did not hold. */
  l1_misses: number,
  /** ... nor the second. */
  l2_misses: number,
  /** ... of which the third level held. */
  l3_hits: number,
  /** Lines fetched by way of the interconnect to be read: from the home's memory, or sent on by it. */
  fetches_read: number,
  /** The same, to be written. */
  fetches_write: number,
  /** Fetches that another CPU's cache served because it held the line changed. */
  interventions: number,
  /** Writes to lines that other CPUs held too. */
  upgrades: number,
  /** Copies that another CPU's write took from this CPU. */
  invalidations: number,
  /** Changed lines that went back to memory. */
  write_backs: number,
  /** Translations that the first TLB did not hold. */
  tlb1_misses: number,
  /** Translations that no TLB held. */
  tlb_misses: number,
  /** Translations shot down because a page moved. */
  shootdowns: number,
};

/** Cost against a parameter: exact for the optimum, sampled for policies. */
export type Curve = {
  /** `page-move` or `page-size`. */
  parameter: string,
  /** Unit of x: `local references` or `bytes`. */
  unit: string,
  /** The value of the machine itself, on the x axis. */
  here?: number,
  /** One line each. */
  series: Array<Series>,
};

/** A point of a [`Series`]: the mean cost per reference and its parts, which add up to it. */
export type CurvePoint = {
  /** Value of the parameter. */
  x: number,
  /** Mean cost per reference. */
  mcpr: number,
  /** Part of local references. */
  local: number,
  /** Part of references to other nodes. */
  remote: number,
  /** Part of references to global memory. */
  global: number,
  /** Part of page copies. */
  copies: number,
  /** (moves + replications) / pages. */
  moves_per_page: number,
};

/** What is said of one of the two diagnoses. */
export type DiffSide = {
  /** What is wrong. */
  verdict: Cause,
  /** ... in a few words. */
  words: string,
  /** ... in a sentence. */
  sentence: string,
  /** What its numbers rest on. */
  basis: string,
  /** The most that any placement could bring, as a share of what `gain_is_of` says. */
  at_most: number,
  /** `modelled time`, or `modelled cost of memory references`. */
  gain_is_of: string,
  /** The trace. */
  trace: TraceInfo,
  /** The machine. */
  machine: MachineInfo,
};

/** A reason not to give a verdict. */
export type Doubt = { "reason": "crashed",
/** The signal's number. */
signal: number, } | { "reason": "cut" } | { "reason": "one-thread",
/** 100 * its references / those of all threads. */
percent: number, } | { "reason": "growing",
/** 100 * pages that are first used in the last quarter of the recording / all pages. */
percent: number, } | { "reason": "few",
/** References. */
references: number, } | { "reason": "shared-memory",
/** 100 * references to shared memory / all references. */
percent: number, } | { "reason": "page-cache",
/** The file with most references. */
file: string,
/** Bytes of the pages of files that the program refers to. */
bytes: number,
/** 100 * references to them / all references. */
percent: number, } | { "reason": "threads",
/** What is wrong then. */
cause: Cause,
/** 100 * the gain of the remedies then. */
percent: number, } | { "reason": "order",
/** Times they travelled in that order. */
seen: number,
/** Times more that they may travel where threads run at once. */
hidden: number,
/** 100 * the time that these would take / the run time with them. */
percent: number, } | { "reason": "fits-caches",
/** Bytes of the pages that the program refers to. */
bytes: number,
/** Bytes of the last-level caches of the nodes that threads run on. */
caches: number,
};

/** What a policy does to the whole program, estimated. */
export type Estimate = {
  /** Windows that have references. */
  windows: number,
  /** References of the whole program. */
  references: number,
  /** Cost of a reference. */
  mcpr: Figure,
  /** Cost of the whole program in local references. */
  cost: Figure,
  /** 100 * references to other nodes' memory / references; absent for the bound. */
  nonlocal_percent?: Figure,
};

/** An estimate that the truth lies around. */
export type Figure = {
  /** Between the two bounds. */
  value: number,
  /** The mean that it cannot be below, as far as the windows go. */
  lower_bound: number,
  /** The mean that it cannot be above. */
  upper_bound: number,
  /** Lower end of the interval that is made to hold the truth in 95 of 100 recordings; none with too few windows. */
  low: number | null,
  /** Its upper end. */
  high: number | null,
};

/** Where a text belongs. */
export type Form = "words" | "c" | "shell" | "systemd" | "oci" | "cgroup";

/** A gain as shares of what there is now: 0.25 takes a quarter off. */
export type Gain = {
  /** The least that was simulated: with or without contention, threads in turn over nodes or in blocks. */
  low: number,
  /** The most. */
  high: number,
};

/** How areas were joined. */
export type Joined = {
  /** Pairs of the same name. */
  by_name: number,
  /** Pairs of the same functions and files at other lines. */
  by_function: number,
  /** Areas of the first diagnosis alone. */
  only_before: number,
  /** Areas of the second alone. */
  only_after: number,
};

/** A line that travels between nodes. */
export type LineReport = {
  /** Bytes from the area's first page to the line. */
  offset: number,
  /** Nodes that use it. */
  nodes: number,
  /** Times it travelled with nothing new. */
  falsely: number,
  /** Times it travelled with something new. */
  truly: number,
};

/** Lines of an area that travel between nodes, as far as they were watched. */
export type LinesReport = {
  /** Times a line travelled although nothing in it that the node asked for was new. */
  falsely: number,
  /** Times a line travelled with something new. */
  truly: number,
  /** The lines that travel most, most first. */
  worst: Array<LineReport>,
};

/** The machine as the report shows it. Costs are in local word references. */
export type MachineInfo = {
  /** Name of the machine. */
  name: string,
  /** One line about it. */
  description: string,
  /** Memories, global memory included. */
  memories: number,
  /** The kernel's numbers of the nodes, where they are not 0, 1, and so on. Columns by node are in this order. */
  node_ids?: Array<number>,
  /** Number of the global memory, if there is one. */
  global_node?: number,
  /** Page size in bytes. */
  page_size: number,
  /** r, on uniform machines. */
  remote?: number,
  /** R, on uniform machines. */
  page_move?: number,
  /** g, where there is global memory. */
  global?: number,
  /** G, where there is global memory. */
  global_page_move?: number,
  /** Access costs `access[i][m]` of unequal machines: row, the node that refers; column, the node that holds the
   * page. */
  access?: Array<Array<number>>,
  /** Copy costs `copy[from][to]` of unequal machines. */
  copy?: Array<Array<number>>,
};

/** A policy over several traces. */
export type MeanRow = {
  /** Policy; `optimal` for the bound. */
  policy: string,
  /** Geometric mean of MCPR. */
  mcpr: number,
  /** Geometric mean of cost / optimal cost, as a gap in per cent. */
  gap_percent: number,
  /** The largest gap, in per cent. */
  worst_gap_percent: number,
  /** The trace with the largest gap. */
  worst_trace: string,
};

/** One entry a page, column by column, in order of virtual address. All columns have the same length. */
export type PageMap = {
  /** Pages of the trace; more than the columns hold if the map was cut (`shown` < `pages`). */
  pages: number,
  /** Length of the columns: the pages with most references. */
  shown: number,
  /** Virtual address of the page as `0x...`; a page that was unmapped and mapped again appears again. */
  vaddr: Array<string>,
  /** References to the page. */
  references: Array<number>,
  /** Sharing class, an index into [`TraceReport::sharing`]. */
  class: Array<number>,
  /** Node where first touch places it. */
  initial: Array<number>,
  /** Node that refers to it most. */
  most_frequent: Array<number>,
  /** Home at the end under the policy that `policy` names. */
  last: Array<number>,
  /** The policy of the column `last`: `homing`, or else the last one compared. */
  policy: string,
  /** Home at the end in the optimal placement. */
  optimal: Array<number>,
  /** References by node, `by_node[page][node]`; nodes after the last one that refers to the page are left out. */
  by_node: Array<Array<number>>,
  /** Names of the data areas that the pages belong to: variables, call sites of allocations, stacks, files. */
  areas: Array<string>,
  /** The area of each page, an index into `areas`; -1: not known. */
  area: Array<number>,
};

/** A named setting. */
export type Parameter = {
  /** Name, such as `placement` or `platinum.t1`. */
  name: string,
  /** Value as text. */
  value: string,
};

/** The optimum of a disturbed order against that of the recorded one. */
export type PerturbationRow = {
  /** `local` or `gaps`. */
  filter: string,
  /** Seed of the filter. */
  seed: number,
  /** Optimal cost of the disturbed trace. */
  optimal_cost: number,
  /** 100 * (disturbed - recorded) / recorded, with its sign. */
  change_percent: number,
};

/** Where small pages are put in place of huge ones. */
export type Placing = "as-now" | "by-user" | "spread" | "follow";

/** What only a running process shows. */
export type ProcessFinding = {
  /** What is wrong. */
  cause: Cause,
  /** ... in a sentence, with what was seen. */
  sentence: string,
  /** What to do, ready to paste; the first in words. */
  paste: Array<Snippet>,
};

/** One page of the larger size, and what it would cost in pages of the smaller one. */
export type Region = {
  /** Virtual address of the large page's first byte. */
  address: number,
  /** References to it. */
  references: number,
  /** Small pages that are in use. */
  pages: number,
  /** Nodes that refer to it. */
  nodes: number,
  /** Optimal cost as one page. */
  whole_cost: number,
  /** Optimal cost in small pages. */
  split_cost: number,
};

/** Something to do about an area. */
export type Remedy =
  | "initialise-by-user"
  | "spread"
  | { "bind": number }
  | "replicate"
  | "migrate"
  | "same-thread"
  | { "small-pages": Placing }
  | "separate-pages"
  | "pad-lines"
  | "split-lines"
  | "one-node";

/** A remedy and what the model predicts of exactly that. */
export type RemedyReport = {
  /** What to do. */
  remedy: Remedy,
  /** What the pages that it is for cost with it, in local references. */
  cost: number,
  /** The share that it saves of what `gain_is_of` says; below 0 it adds. */
  saves: number,
  /** The program's modelled time with it over that without, where times are known. */
  time_ratio?: number,
  /** The remedy, ready to paste. */
  paste?: Array<Snippet>,
};

/** A whole comparison: what `homing compare --json` prints and the report page reads. */
export type Report = {
  /** Version of this schema ([`SCHEMA`]). */
  schema: number,
  /** Program and version that wrote it, such as `homing 0.1.0`. */
  generator: string,
  /** The machine that was modelled. */
  machine: MachineInfo,
  /** Every parameter of the run, with defaults, as name and value: the manifest. */
  parameters: Array<Parameter>,
  /** One block for each trace. */
  traces: Array<TraceReport>,
  /** Geometric means over the traces, one for each policy; empty for a single trace. */
  means: Array<MeanRow>,
  /** What the reader must know: which numbers are modelled, what was left out and why. */
  notes: Array<string>,
};

/** One row: one policy (or the optimum) on one trace and machine. */
export type Row = {
  /** Name of the policy; `optimal` for the bound. */
  policy: string,
  /** Name of the machine. */
  machine: string,
  /** What the policy saw: `perfect`, `every:64`, ...; empty for the bound. */
  information?: string,
  /** Data references charged. */
  references: number,
  /** Total cost in local word references. */
  cost: number,
  /** Mean cost per reference; 1 is all-local. */
  mcpr: number,
  /** References served by the requester's own node. */
  local: number,
  /** References served by another processor's node. */
  remote: number,
  /** References served by global memory. */
  global: number,
  /** Pages copied to a new home (the old copy dropped). */
  moves: number,
  /** Pages copied beside the old copy. */
  replications: number,
  /** 100 * (remote + global) / references. */
  nonlocal_percent: number,
  /** Cost of the off-line optimum for the same trace, machine and page size. */
  optimal_cost: number,
  /** 100 * (cost - optimal_cost) / optimal_cost. */
  gap_percent: number,
  /** 100 * (first touch - cost) / (first touch - optimum): the share of what can be gained; absent where first touch
   * is already optimal. */
  recovered_percent?: number,
  /** Distinct pages referenced. */
  pages: number,
  /** Wall-clock seconds that computing this row took (measured). */
  seconds: number,
  /** The part of the cost that is page copies. */
  copy_cost: number,
  /** (moves + replications) / pages. */
  moves_per_page: number,
  /** What that is for the whole program, estimated, where the trace is of windows of it. */
  program?: Estimate,
  /** Modelled time of the program in milliseconds, with the time of moves taken from whoever made them; absent where
   * no run with caches was timed. */
  modelled_ms?: number,
  /** The same if a processor of its own had made the moves. */
  own_mover_ms?: number,
};

/** How references were sampled. */
export type SampledReport = {
  /** The source, as `--source` takes it. */
  source: string,
  /** The file that has the samples, and where it was recorded; absent for this machine. */
  recorded?: string,
  /** How long it sampled. */
  seconds: number,
  /** Samples. */
  samples: number,
};

/** One line of a [`Curve`]. */
export type Series = {
  /** Policy; `optimal` for the bound. */
  policy: string,
  /** True if the points are all break-points of a piecewise linear curve, so that straight lines between them are
   * exact; false if they are samples. */
  exact: boolean,
  /** The points, by rising x. */
  points: Array<CurvePoint>,
};

/** That of one of them. */
export type Share = {
  /** The phase, or the numbers of the threads. */
  name: string,
  /** References; behind caches: those that reach memory. */
  references: number,
  /** 100 * references to other nodes' memory / references. */
  nonlocal_percent: number,
  /** 100 * its part of the avoidable cost / all of it. */
  avoidable_percent: number,
};

/** What phases and threads have to do with what can be avoided. */
export type Shares = {
  /** By phase, in the order in which they first began. */
  by_phase: Array<Share>,
  /** By thread; threads on one CPU come together. */
  by_thread: Array<Share>,
};

/** A row at one of several page sizes. */
export type SizeRow = {
  /** Bytes of a page. */
  page_size: number,
  /** TLB misses at that size, with `--misses`. */
  tlb_misses?: number,
  /** Name of the policy; `optimal` for the bound. */
  policy: string,
  /** Name of the machine. */
  machine: string,
  /** What the policy saw: `perfect`, `every:64`, ...; empty for the bound. */
  information?: string,
  /** Data references charged. */
  references: number,
  /** Total cost in local word references. */
  cost: number,
  /** Mean cost per reference; 1 is all-local. */
  mcpr: number,
  /** References served by the requester's own node. */
  local: number,
  /** References served by another processor's node. */
  remote: number,
  /** References served by global memory. */
  global: number,
  /** Pages copied to a new home (the old copy dropped). */
  moves: number,
  /** Pages copied beside the old copy. */
  replications: number,
  /** 100 * (remote + global) / references. */
  nonlocal_percent: number,
  /** Cost of the off-line optimum for the same trace, machine and page size. */
  optimal_cost: number,
  /** 100 * (cost - optimal_cost) / optimal_cost. */
  gap_percent: number,
  /** 100 * (first touch - cost) / (first touch - optimum): the share of what can be gained; absent where first touch
   * is already optimal. */
  recovered_percent?: number,
  /** Distinct pages referenced. */
  pages: number,
  /** Wall-clock seconds that computing this row took (measured). */
  seconds: number,
  /** The part of the cost that is page copies. */
  copy_cost: number,
  /** (moves + replications) / pages. */
  moves_per_page: number,
  /** What that is for the whole program, estimated, where the trace is of windows of it. */
  program?: Estimate,
  /** Modelled time of the program in milliseconds, with the time of moves taken from whoever made them; absent where
   * no run with caches was timed. */
  modelled_ms?: number,
  /** The same if a processor of its own had made the moves. */
  own_mover_ms?: number,
};

/** A remedy in one form. */
export type Snippet = {
  /** Where it belongs. */
  form: Form,
  /** What to paste. */
  text: string,
};

/** What is estimated of the whole program while pages stay where they are: of every reference, without caches. */
export type Still = {
  /** Windows that have references. */
  windows: number,
  /** How much of the program they hold, from 0 to 1. */
  share: number,
  /** 100 * references to other nodes' memory / references. */
  nonlocal_percent: Figure,
  /** 100 * what is saved if each page is, from the start, at the node where it costs least / what references cost
   * now.
   * At least: that node is chosen from half of the windows and judged by the other half. At most: it is chosen from
   * all of them. */
  avoidable_percent: Figure,
};

/** What holds for the timelines of all areas. */
export type Timelines = {
  /** Intervals, all equally long but for the last. */
  intervals: number,
  /** References of the whole program, before any cache, in an interval. */
  interval_references: number,
  /** References of the whole program in all intervals. */
  references: number,
  /** Areas without a timeline, those with least to avoid. */
  areas_left_out: number,
};

/** Where a trace comes from and how large it is. */
export type TraceInfo = {
  /** Short name: the file's stem, or as much of its path as tells it from the other traces. */
  name: string,
  /** Digest of the trace file (xxh3-64, hexadecimal). */
  digest: string,
  /** Command line of the recorded program. */
  command: Array<string>,
  /** What recorded it. */
  recorder: string,
  /** Data references; with `--misses` those that reached memory. */
  references: number,
  /** Reads among them. */
  reads: number,
  /** Writes among them. */
  writes: number,
  /** Threads of the program. */
  threads: number,
  /** Distinct pages at the report's page size. */
  pages: number,
  /** False when the recording was cut or parts of it were damaged. */
  complete: boolean,
  /** What the caches counted, with `--misses`. */
  caches?: Counts,
};

/** What the report says about one trace. */
export type TraceReport = {
  /** The trace. */
  trace: TraceInfo,
  /** The result in a sentence for a person. */
  summary: string,
  /** One row for each policy; the first is `optimal`. */
  rows: Array<Row>,
  /** Rows of the policies at further information levels. */
  further_levels?: Array<Row>,
  /** One row for each sharing class, in the order of `sharing::SharingClass::ALL`. */
  sharing: Array<ClassRow>,
  /** Where pages begin, end and belong. */
  page_map: PageMap,
  /** What is wrong with where the pages are, and what to do about it; absent where nobody asked, and in reports of
   * earlier versions. */
  why?: WhyReport,
  /** Cost curves and sweeps. */
  curves: Array<Curve>,
  /** How much the optimum changes when the order of references is disturbed (Bolosky & Scott 1991, table II). */
  perturbation: Array<PerturbationRow>,
  /** Bound and policies at each page size, where several were asked for. */
  page_sizes?: Array<SizeRow>,
  /** Pages of the largest size that cost least in pages of the smallest, most gain first. */
  split?: Array<Region>,
};

/** References from nodes to memories. */
export type TrafficReport = {
  /** `by_node[i][m]`: references by CPUs of node i to the memory of node m. */
  by_node: Array<Array<number>>,
  /** 100 * references to other nodes' memory / references. */
  nonlocal_percent: number,
  /** What the busiest memory serves over what the mean one serves. */
  imbalance: number,
};

/** Costs of all references, in local references. */
export type WhyCost = {
  /** As pages are. */
  now: number,
  /** With the remedies of all areas. */
  with_remedies: number,
  /** With the best start and the cheapest moves: no placement of one copy a page does better. */
  bound: number,
};

/** What changed from one diagnosis to another. */
export type WhyDiff = {
  /** Version of this schema ([`SCHEMA`]). */
  schema: number,
  /** Program and version that wrote it. */
  generator: string,
  /** What changed, in a sentence. */
  sentence: string,
  /** What the two do not have in common besides the program's change: machine, threads, caches, references. */
  differs: Array<string>,
  /** The first diagnosis. */
  before: DiffSide,
  /** The second. */
  after: DiffSide,
  /** Modelled seconds, where both have them. */
  seconds?: Change,
  /** Modelled seconds of waiting for memories and links that others use. */
  contention_seconds?: Change,
  /** What all references cost, in local references. */
  cost: Change,
  /** ... beyond the bound. */
  avoidable_cost: Change,
  /** 100 * references to other nodes' memory / references. */
  nonlocal_percent: Change,
  /** What the busiest memory serves over what the mean one serves. */
  imbalance: Change,
  /** How areas were joined. */
  joined: Joined,
  /** The areas, by falling change of what their references cost. */
  areas: Array<AreaChange>,
};

/** The whole answer. */
export type WhyReport = {
  /** Version of this schema ([`SCHEMA`]). */
  schema: number,
  /** Program and version that wrote it, such as `homing 0.1.0`. */
  generator: string,
  /** What is wrong. */
  verdict: Cause,
  /** ... in a few words. */
  words: string,
  /** ... in a sentence, with how much there is to gain. */
  sentence: string,
  /** What the numbers rest on, in a sentence. */
  basis: string,
  /** What the remedies bring, as shares of what `gain_is_of` says. */
  gain: Gain,
  /** The most that any placement could bring, as such a share. */
  at_most: number,
  /** `modelled time`, or `modelled cost of memory references` where the machine model has no times. */
  gain_is_of: string,
  /** References went through the machine's caches first. */
  behind_caches: boolean,
  /** A page may have several copies without a remedy that makes them. */
  replication: boolean,
  /** How threads were bound to CPUs, as `--threads-on` takes it. */
  threads_on: string,
  /** Nodes that threads run on. */
  nodes_in_use: number,
  /** How references were sampled; absent for a trace, which has all of them. */
  sampled?: SampledReport,
  /** Which threads work, and the nodes that they reach; absent for samples. */
  busy?: Working,
  /** Why there is no verdict, if there is none: the verdict is `not-known`, and all else is of what was recorded. */
  doubt?: Doubt,
  /** What only a running process shows, in the order of judging; the first is the verdict. */
  process?: Array<ProcessFinding>,
  /** The machine that was modelled. */
  machine: MachineInfo,
  /** The trace. */
  trace: TraceInfo,
  /** Every parameter, with defaults. */
  parameters: Array<Parameter>,
  /** What all references cost, in local references. */
  cost: WhyCost,
  /** Modelled times, where they are known. */
  elapsed?: WhyTimes,
  /** Who fetches from whom. */
  traffic: WhyTraffic,
  /** What one remedy for all pages alike would bring: those that were modelled, whether they pay or not. */
  one_remedy_for_all: Array<RemedyReport>,
  /** The areas, by falling avoidable cost. */
  areas: Array<AreaReport>,
  /** Areas that no remedy was tried for: the last ones, and those that come together in `other`. */
  areas_untried: number,
  /** What holds for the timelines of areas; absent for samples, which have no order. */
  timelines?: Timelines,
  /** What phases and threads have to do with it, if that was asked. */
  shares?: Shares,
  /** What of it is estimated for the whole program, where the trace is of windows of it. */
  program?: Still,
  /** What else a reader must know. */
  notes: Array<string>,
};

/** A modelled time. */
export type WhyTime = {
  /** All of it. */
  seconds: number,
  /** Waiting for memories and links that others use. */
  contention_seconds: number,
};

/** Modelled times of the program. */
export type WhyTimes = {
  /** As pages are. */
  now: WhyTime,
  /** With the remedies of all areas. */
  with_remedies: WhyTime,
};

/** Who fetches from whom. */
export type WhyTraffic = {
  /** As pages are. */
  now: TrafficReport,
  /** With the remedies of all areas. */
  with_remedies: TrafficReport,
};

/** The threads that work, and the nodes that they reach. */
export type Working = {
  /** Threads that are busy at some time ([`crate::history::Busy`]). */
  threads: number,
  /** Whether one of them makes nearly all references. */
  alone: boolean,
  /** Nodes that they run on. */
  reached: number,
  /** Nodes of the machine that have CPUs. */
  nodes: number,
};
