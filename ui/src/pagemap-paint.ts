// The cells of a page map on a canvas: as rectangles with the number of their node where there is room, and as pixels
// where there are very many.

import { corner, type Layout } from './pagemap-layout.ts'
import { inkOn, nodeColour } from './palette.ts'
import type { MachineInfo } from './report.ts'

/** What is painted. */
export interface Picture {
  map: Layout
  homes: readonly number[]
  machine: MachineInfo
  /** The node that is singled out. */
  only: number | undefined
}

/** Cells of at most so many pixels are painted as pixels. */
const SMALL = 4
/** What is left of the cells of other nodes where one is singled out. */
const FAINT = 0.15

/** Paints all cells; the canvas gets the size of the map. */
export function paintCells(canvas: HTMLCanvasElement, picture: Picture): void {
  const { map } = picture
  // Very tall maps stay within what a canvas can hold.
  const sharp = Math.max(1, Math.min(window.devicePixelRatio || 1, 16000 / map.height, 3))
  const scale = map.cell <= SMALL ? 1 : sharp
  canvas.width = Math.round(map.width * scale)
  canvas.height = Math.round(map.height * scale)
  canvas.style.width = `${map.width}px`
  canvas.style.height = `${map.height}px`
  const context = canvas.getContext('2d')!
  context.scale(scale, scale)
  if (map.cell <= SMALL) pixels(context, picture)
  else rectangles(context, picture)
}

function rectangles(context: CanvasRenderingContext2D, { map, homes, machine, only }: Picture): void {
  context.font = `600 ${map.cell - 5}px system-ui, sans-serif`
  context.textAlign = 'center'
  context.textBaseline = 'middle'
  for (const block of map.blocks) {
    block.pages.forEach((page, index) => {
      const { x, y } = corner(map, block, index)
      const node = homes[page]!
      const colour = nodeColour(node, machine.memories, machine.global_node)
      context.globalAlpha = only === undefined || only === node ? 1 : FAINT
      context.fillStyle = colour
      context.fillRect(x, y, map.cell - 1, map.cell - 1)
      if (map.cell < 12) return
      context.fillStyle = inkOn(colour)
      const name = node === machine.global_node ? 'g' : String(node)
      context.fillText(name, x + (map.cell - 1) / 2, y + map.cell / 2, map.cell - 2)
    })
  }
}

function pixels(context: CanvasRenderingContext2D, { map, homes, machine, only }: Picture): void {
  const [width, height] = [context.canvas.width, context.canvas.height]
  const image = context.createImageData(width, height)
  // Bytes are alpha, blue, green, red from the top of a word, as on every machine that runs a browser.
  const words = new Uint32Array(image.data.buffer)
  const colours = Array.from({ length: machine.memories }, (_, node) => {
    const colour = Number.parseInt(nodeColour(node, machine.memories, machine.global_node).slice(1), 16)
    const alpha = only === undefined || only === node ? 255 : Math.round(255 * FAINT)
    return ((alpha << 24) | ((colour & 255) << 16) | (colour & 0xff00) | (colour >> 16)) >>> 0
  })
  for (const block of map.blocks)
    block.pages.forEach((page, index) => {
      const { x, y } = corner(map, block, index)
      const colour = colours[homes[page]!]
      if (colour === undefined) return
      for (let row = y; row < Math.min(y + map.cell, height); row += 1)
        words.fill(colour, row * width + x, row * width + x + map.cell)
    })
  context.putImageData(image, 0, 0)
}
