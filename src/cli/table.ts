import Table from 'cli-table3';
import type { Spread } from './report.js';

// Two spaces between columns and one rule below the head: what fits 80 columns.
const CHARS = {
  ...{ top: '', 'top-mid': '', 'top-left': '', 'top-right': '' },
  ...{ bottom: '', 'bottom-mid': '', 'bottom-left': '', 'bottom-right': '' },
  ...{ left: '', right: '', middle: '  ', mid: '─', 'mid-mid': '──', 'left-mid': '', 'right-mid': '' },
};

/** A table; its cells may be coloured. All columns but the first are aligned to the right unless `aligns` says otherwise. */
export function table(
  head: string[],
  rows: readonly string[][],
  aligns: ('left' | 'right')[] = head.map((_, i) => (i === 0 ? 'left' : 'right')),
): string {
  const out = new Table({
    head,
    chars: CHARS,
    colAligns: aligns,
    style: { head: [], border: [], compact: true, 'padding-left': 0, 'padding-right': 0 },
  });
  out.push(...rows);
  return out
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n');
}

/** Three significant digits, and thousands apart. */
export function number(value: number): string {
  if (Number.isInteger(value)) return value.toLocaleString('en-US');
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : Math.abs(value) >= 1 ? 2 : 3;
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** "median (min – max)" */
export const range = ({ median, min, max }: Spread): string =>
  `${number(median)} (${number(min)} – ${number(max)})`;

/** A ratio needs its second digit. */
export const ratio = ({ median, min, max }: Spread): string =>
  `×${median.toFixed(2)} (${min.toFixed(2)}–${max.toFixed(2)})`;
