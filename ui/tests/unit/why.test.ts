// The parts of the diagnosis's page that are pure: names, source lines, nodes, CSV.

import { describe, expect, test } from 'vitest'
import { csv } from '../../src/csv.ts'
import { became, share, signed } from '../../src/diff-words.ts'
import { inWords, parts } from '../../src/nodes.ts'
import { causeWords, remedyLong, remedyShort, saves } from '../../src/remedies.ts'
import type { AreaReport, Cause, Remedy } from '../../src/report.ts'
import { frames, sources } from '../../src/sources.ts'
import { cellWidth, pagesByArea } from '../../src/strip.ts'
import { areaName, visible } from '../../src/visible.ts'
import { fixture } from '../fixture.ts'

function area(name: string | undefined, avoidable: number): AreaReport {
  const base = fixture().traces[0]!.why!.areas[0]!
  const { name: _, ...rest } = base
  return {
    ...rest,
    ...(name === undefined ? {} : { name }),
    cost: { ...base.cost, now: 100 + avoidable, bound: 100 },
  }
}

describe('names', () => {
  test('show what would act on text', () => {
    expect(visible('a\u202eb\u0000c\nd\u200b<b>')).toBe('a\\u202eb\\u0000c\\u000ad\\u200b<b>')
    expect(visible('naïve 名前 😀')).toBe('naïve 名前 😀')
    expect(areaName({})).toBe('(no name)')
  })

  test('of call sites are read as frames, others are not', () => {
    expect(frames('new_pages (common.h:134) < std::make<T> (a.cc:7)')).toEqual([
      { function: 'new_pages', file: 'common.h', line: 134 },
      { function: 'std::make<T>', file: 'a.cc', line: 7 },
    ])
    for (const other of [undefined, 'table_', 'libgomp.so+0xd1 < f (a.c:1)', 'f (in /usr/lib/x.so)', '[stack]'])
      expect(frames(other)).toEqual([])
  })
})

test('source lines count wrappers at their callers, files by what they cost', () => {
  const { files, elsewhere } = sources([
    area('alloc (common.h:10) < left (a.c:5) < main (a.c:50)', 10),
    area('alloc (common.h:10) < right (a.c:9) < main (a.c:51)', 20),
    area('own (b.c:3) < main (a.c:52)', 100),
    area('table_', 7),
    area(undefined, 1),
  ])
  expect(files.map((file) => [file.file, file.avoidable, file.lines.map((line) => line.line)])).toEqual([
    ['b.c', 100, [3]],
    ['a.c', 30, [5, 9]],
  ])
  expect(files[1]!.lines[1]!.functions).toEqual(['right'])
  expect(elsewhere.map(areaName)).toEqual(['table_', '(no name)'])
})

test('nodes are told in few words', () => {
  expect(inWords([0, 0])).toBe('–')
  expect(inWords([0, 97, 3])).toBe('node 1')
  expect(inWords([10, 9, 10, 8])).toBe('all evenly')
  expect(inWords([10, 0, 30, 0])).toBe('2:\u00a075\u202f%, 0:\u00a025\u202f%')
  expect(inWords([90, 10, 0.1])).toBe('0:\u00a090\u202f%, 1:\u00a010\u202f%, …')
  expect(parts([1, 0, 3]).map((part) => [part.node, part.share])).toEqual([
    [2, 0.75],
    [0, 0.25],
  ])
})

test('causes and remedies of later versions are shown by their names', () => {
  expect(causeWords('shared-by-all')).toBe('shared by all: spread it')
  expect(causeWords('bewitched' as Cause)).toBe('bewitched')
  expect(remedyShort({ bind: 3 })).toBe('keep on node 3')
  expect(remedyLong({ bind: 3 })).toContain('MPOL_BIND, node 3')
  expect(remedyLong('spread')).toContain('MPOL_INTERLEAVE')
  expect(remedyShort('sing-to-it' as Remedy)).toBe('sing-to-it')
  expect(remedyLong({ pad: 64 } as unknown as Remedy)).toBe('pad')
  expect([saves(0.25), saves(-0.05)]).toEqual(['saves 25\u202f%', 'adds 5.0\u202f%'])
})

test('CSV quotes what it must, and no name becomes a formula', () => {
  expect(
    csv([
      ['a', 'b,c', 'say "x"'],
      ['=cmd()', -1.5, undefined],
    ]),
  ).toBe('a,"b,c","say ""x"""\r\n\'=cmd(),-1.5,\r\n')
})

test('cells of a strip are 8 pixels wide or more', () => {
  expect([cellWidth(3, 800), cellWidth(60, 800), cellWidth(1e6, 800), cellWidth(0, 800)]).toEqual([22, 13, 8, 22])
  const map = fixture().traces[0]!.page_map
  const found = pagesByArea(map)
  expect([...found.values()].flat()).toHaveLength(map.shown)
  expect(found.get(0)!.every((page) => map.area[page] === 0)).toBe(true)
})

test('changes are told with their sign', () => {
  const side = { bytes: 1, references: 1, cost: 4, avoidable_cost: 1 }
  expect(share({ before: 4, after: 3 })).toBe('−25\u202f%')
  expect(share({ before: 4, after: 5 })).toBe('+25\u202f%')
  const same = [share({ before: 2, after: 2 }), share({ before: 1e6, after: 1e6 + 1 })]
  expect([share({ before: 0, after: 1 }), ...same]).toEqual(['from none', 'same', 'same'])
  expect([signed(12), signed(-12), signed(0)]).toEqual(['+12', '−12', '0'])
  expect(became({ change: 4, after: side })).toBe('new')
  expect(became({ change: -4, before: side })).toBe('went away')
  expect(became({ change: -1, before: side, after: { ...side, cost: 3 } })).toBe('−25\u202f%')
})

test('small pages have words, however they are placed', () => {
  expect(remedyShort({ 'small-pages': 'as-now' })).toBe('small pages')
  expect(remedyShort({ 'small-pages': 'by-user' })).toBe('small pages, made by their users')
  expect(remedyLong({ 'small-pages': 'spread' })).toMatch(/MADV_NOHUGEPAGE.*small pages, spread over the nodes\.$/)
  expect(causeWords('shared-huge-pages')).toContain('huge pages shared by nodes')
})
