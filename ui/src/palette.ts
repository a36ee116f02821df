// Colours that people with any colour vision can tell apart (Okabe & Ito 2008, "Color universal design"; above eight
// nodes a ramp that rises in lightness as well, after viridis).

/** Okabe-Ito without black, which would vanish on a dark page; the eighth is a grey. */
const NODES = ['#0072B2', '#E69F00', '#009E73', '#CC79A7', '#56B4E9', '#D55E00', '#F0E442', '#8A8A8A']

const RAMP: [number, number, number][] = [
  [72, 40, 120],
  [62, 74, 137],
  [49, 104, 142],
  [38, 130, 142],
  [31, 158, 137],
  [53, 183, 121],
  [110, 206, 88],
  [181, 222, 43],
  [253, 231, 37],
]

/** The colour of a node among `nodes`. Global memory is always the grey one. */
export function nodeColour(node: number, nodes: number, globalNode?: number): string {
  if (node === globalNode) return '#8A8A8A'
  const plain = globalNode === undefined ? nodes : nodes - 1
  if (plain <= 8) return NODES[node] ?? '#8A8A8A'
  const place = (Math.min(node, plain - 1) / Math.max(plain - 1, 1)) * (RAMP.length - 1)
  const low = Math.min(Math.floor(place), RAMP.length - 2)
  const [from, to] = [RAMP[low]!, RAMP[low + 1]!]
  return hex(from.map((value, i) => value + (to[i]! - value) * (place - low)))
}

function hex(rgb: number[]): string {
  return `#${rgb.map((value) => Math.round(value).toString(16).padStart(2, '0')).join('')}`
}

/** Black or white, whichever is easier to read on the colour (WCAG relative luminance). */
export function inkOn(colour: string): '#000000' | '#ffffff' {
  const channel = (at: number) => {
    const value = Number.parseInt(colour.slice(at, at + 2), 16) / 255
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
  }
  const luminance = 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
  return luminance > 0.179 ? '#000000' : '#ffffff'
}

/** Where a reference's cost goes, in stacking order. */
export const COST_PARTS = [
  { key: 'local', label: 'local', colour: '#56B4E9' },
  { key: 'remote', label: 'remote', colour: '#D55E00' },
  { key: 'global', label: 'global memory', colour: '#E69F00' },
  { key: 'copies', label: 'page copies', colour: '#CC79A7' },
] as const

/** Line styles: colour and dash together, so that no line is told by colour alone. */
export function lineStyle(index: number): { colour: string; dash: string } {
  const dashes = ['none', '6 3', '2 3', '10 3 2 3', '1 4']
  const colours = ['#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9', '#8A8A8A']
  return {
    colour: colours[index % colours.length]!,
    dash: dashes[Math.floor(index / colours.length + index) % dashes.length]!,
  }
}
