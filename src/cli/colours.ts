/** Paints text; leaves it as it is where colours are off. */
export interface Colours {
  strong(text: string): string;
  quiet(text: string): string;
  bad(text: string): string;
  out(text: string): string;
  in(text: string): string;
}

/** SGR parameters: what starts and what ends a style. */
const STYLES: Record<keyof Colours, [number, number]> = {
  strong: [1, 22],
  quiet: [2, 22],
  bad: [31, 39],
  out: [36, 39],
  in: [33, 39],
};

export function colours(on: boolean): Colours {
  const paint =
    ([start, end]: [number, number]) =>
    (text: string): string =>
      on && text !== '' ? `\x1b[${start}m${text}\x1b[${end}m` : text;
  return {
    strong: paint(STYLES.strong),
    quiet: paint(STYLES.quiet),
    bad: paint(STYLES.bad),
    out: paint(STYLES.out),
    in: paint(STYLES.in),
  };
}
