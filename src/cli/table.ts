import Table from 'cli-table3';
import type { Spread } from './report.js';

export type Cell = string | number;

/** A table without colours; all columns but the first are numbers. */
export function table(head: string[], rows: Cell[][], left = 1): string {
  const out = new Table({
    head,
    colAligns: head.map((_, i) => (i < left ? 'left' : 'right')),
    style: { head: [], border: [], compact: true },
  });
  out.push(...rows);
  return out.toString();
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
  `×${median.toFixed(2)} (${min.toFixed(2)} – ${max.toFixed(2)})`;
