// The parts that a printed inspection is made of, whatever the ring format.
import type { SegmentView, TableView } from '../../queue/inspect/chain.js';
import type { SideView } from '../../queue/inspect/side.js';
import type { Colours } from '../colours.js';
import { number, table } from '../table.js';

/** A buffer in a table: its cells, and what is said of it below the table. */
export interface Row {
  cells: (string | number)[];
  segments?: SegmentView[];
  table?: TableView;
  problem?: string;
  /** Not a problem, but worth a word. */
  remark?: string;
}

/** Lines of a table that a terminal is bothered with. */
const LINES_MAX = 120;

/** Lines below a table. */
const WORDS_MAX = 24;

const SEGMENT_HEAD = ['direction', 'address', 'length'];

/** Collects the parts; a line between two of them stays free. */
export class Sheet {
  private readonly parts: string[] = [];

  constructor(readonly paint: Colours) {}

  get text(): string {
    return this.parts.join('\n\n');
  }

  title(text: string, features: readonly string[], problems: readonly string[]): void {
    const head = [this.paint.strong(text), ...features].join('  ');
    this.parts.push([head, ...problems.map((problem) => this.paint.bad(`✗ ${problem}`))].join('\n'));
  }

  facts(facts: readonly Fact[]): void {
    const width = Math.max(...facts.map(([label]) => label.length));
    this.parts.push(
      facts.map(([label, text]) => `${this.paint.quiet(label.padEnd(width))}  ${text}`).join('\n'),
    );
  }

  /** A table of buffers, one line for each segment. @param more what the inspection does not list */
  buffers(title: string, head: readonly string[], rows: readonly Row[], more = ''): void {
    if (rows.length === 0) {
      this.parts.push(this.paint.strong(title));
      return;
    }
    const tables = rows.some((row) => row.table !== undefined);
    const segments = rows.some((row) => row.segments !== undefined);
    const full = [...head, ...(tables ? ['table'] : []), ...(segments ? SEGMENT_HEAD : [])];
    const lines: string[][] = [];
    const words: string[] = [];
    let hidden = 0;
    for (const row of rows) {
      const cells = row.cells.map((cell) => (typeof cell === 'number' ? number(cell) : cell));
      const name = `${head[0]} ${cells[0]}`;
      // Said of hidden rows, too: nobody would look for it otherwise.
      if (row.problem !== undefined) words.push(this.paint.bad(`✗ ${name}: ${row.problem}`));
      if (row.remark !== undefined) words.push(`  ${name}: ${row.remark}`);
      if (lines.length >= LINES_MAX) {
        hidden++;
        continue;
      }
      if (row.problem !== undefined) cells[0] = this.paint.bad(cells[0]);
      if (tables) cells.push(row.table ? `${row.table.address} × ${number(row.table.descriptors)}` : '');
      const first = segments ? this.segmentCells(row.segments?.[0]) : [];
      lines.push([...cells, ...first]);
      for (const segment of row.segments?.slice(1) ?? [])
        lines.push([...cells.map(() => ''), ...this.segmentCells(segment)]);
    }
    const cut = lines.length > LINES_MAX ? lines.splice(LINES_MAX).length : 0;
    const aligns = full.map((name) => (LEFT.has(name) ? 'left' : 'right'));
    this.parts.push(
      [
        this.paint.strong(title),
        table(
          full.map((name) => this.paint.quiet(name)),
          lines,
          aligns,
        ),
        ...(cut > 0
          ? [this.paint.quiet(`… and ${number(cut)} more segments of the last one: --json has them`)]
          : []),
        ...(hidden > 0 ? [this.paint.quiet(`… and ${number(hidden)} more: --json has them`)] : []),
        ...(more === '' ? [] : [this.paint.quiet(`… and ${more}`)]),
        ...words.slice(0, WORDS_MAX),
        ...(words.length > WORDS_MAX
          ? [this.paint.quiet(`… and ${number(words.length - WORDS_MAX)} more remarks: --json has them`)]
          : []),
      ].join('\n'),
    );
  }

  /** Where a saved queue is all that is at hand. */
  withoutMemory(): void {
    this.parts.push(
      this.paint.quiet('The ring itself is not part of a saved queue: --memory <file> shows it, too.'),
    );
  }

  private segmentCells(segment: SegmentView | undefined): string[] {
    if (segment === undefined) return ['', '', ''];
    const { direction, address, length } = segment;
    return [this.paint[direction](direction), address, number(length)];
  }
}

/** A label and what is to be said of it. */
export type Fact = [label: string, text: string];

/** In-order use: what is left of a batch. */
export const batchFact = (batch: { left: number; length: number } | undefined): Fact[] =>
  batch === undefined || batch.left === 0
    ? []
    : [['batch', `${plural(batch.left, 'buffer')} left, the last one with length ${number(batch.length)}`]];

const LEFT = new Set(['direction', 'state', 'table', 'flags', 'descriptors', 'next entry']);

/** Facts that every side has. */
export function commonFacts({ areas, stats }: SideView): Fact[] {
  const { errors, ...counts } = stats;
  const counted = Object.entries({ ...counts, ...errors }).filter(([, n]) => n !== 0);
  return [
    ['areas', `descriptor ${areas.descriptor}, driver ${areas.driver}, device ${areas.device}`],
    ['counts', counted.map(([name, n]) => `${name} ${number(n)}`).join(', ') || 'all 0'],
  ];
}

/** What is wrong with a side as a whole. */
export const sideProblems = ({ fault, problems }: SideView): string[] => [
  ...(fault === null ? [] : [`broken (${fault.code}): ${fault.reason}`]),
  ...problems,
];

/** "16 of 2,048 bytes at 0x… in use", of a driver's table memory. */
export const tableFact = ({
  address,
  length,
  inUse,
}: {
  address: string;
  length: number;
  inUse: number;
}): string => (length === 0 ? 'none' : `${number(inUse)} of ${number(length)} bytes at ${address} in use`);

/** 0, 3–7, 9 */
export function ranges(numbers: readonly number[], most = 12): string {
  const runs: [number, number][] = [];
  for (const n of numbers) {
    const last = runs.at(-1);
    if (last !== undefined && n === last[1] + 1) last[1] = n;
    else runs.push([n, n]);
  }
  const shown = runs
    .slice(0, most)
    .map(([a, b]) => (a === b ? `${a}` : b === a + 1 ? `${a}, ${b}` : `${a}–${b}`));
  return [...shown, ...(runs.length > most ? ['…'] : [])].join(', ');
}

export const plural = (n: number, one: string, many = `${one}s`): string =>
  `${number(n)} ${n === 1 ? one : many}`;

/** As `plural`, for what is listed below. */
export const counted = (n: number, one: string, many?: string): string =>
  n === 0 ? 'none' : plural(n, one, many);

/** 65536 stands for that many or more. */
export const saturated = (n: number, one: string): string =>
  `${n === 65536 ? 'at least ' : ''}${plural(n, one)}`;

/** What is there beside what an inspection lists. */
export const unlisted = (n: number, one: string): string => (n <= 0 ? '' : `${plural(n, one)} more`);
