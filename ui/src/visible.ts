// Names that others chose, as one line that says what is in it: characters that break a line, change the direction of
// text or show nothing appear as their numbers, as the program prints them (crates/homing-linux/src/visible.rs).

const ACTS = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g

/** A name with all that acts made visible. */
export function visible(name: string): string {
  return name.replace(ACTS, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Where nothing is known of pages. */
export const NO_NAME = '(no name)'

/** The name of an area. */
export function areaName(area: { name?: string }): string {
  return area.name === undefined ? NO_NAME : visible(area.name)
}
