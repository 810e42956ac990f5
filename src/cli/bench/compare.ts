// What changed between two reports beyond the noise.
import { readFile } from 'node:fs/promises';
import { Failure, systemReason } from '../errors.js';
import {
  type Machine,
  type Params,
  type Ratio,
  type Report,
  type Result,
  type Spread,
  spread,
} from '../report.js';
import { number, ratio } from '../table.js';

/** A figure that both reports have, and whose ranges do not overlap. */
export interface Change {
  kind: 'ratio' | 'result';
  name: string;
  engine: string;
  ring: string;
  params: Params;
  /** Of a result; a ratio has none. */
  unit?: string;
  before: Spread;
  after: Spread;
  /** How many times better, without the drift: throughput, or less of what is counted. Below 1: worse. */
  gain: number;
}

/** What comes of the comparison of one suite. */
export interface Comparison {
  suite: string;
  /** Largest changes first, ratios before results. */
  changes: Change[];
  /** Figures compared, with those that changed. */
  compared: number;
  /** Figures that one of the reports has alone. */
  added: number;
  gone: number;
  /** How many times as long as before the times took as a whole; taken out of each. 1: not known. */
  drift: number;
  /** Why only ratios were compared, if so: the machines differ. */
  machines?: string;
}

/**
 * Reads a file that `--json` wrote.
 * @throws Failure if it cannot be read or is something else
 */
export async function readReports(file: string): Promise<Report[]> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    throw new Failure(`${file}: cannot be read: ${systemReason(error)}`);
  }
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new Failure(`${file}: is not JSON: ${(error as Error).message}`);
  }
  return (Array.isArray(json) ? json : [json]).map((report, i) => {
    const problem = reportProblem(report);
    if (problem !== undefined)
      throw new Failure(
        `${file}: is not what 'vring bench --json' writes: ${problem}${Array.isArray(json) ? ` in report ${i}` : ''}`,
      );
    return report as Report;
  });
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The first thing that is wrong with a report, or undefined. */
function reportProblem(report: unknown): string | undefined {
  if (!isRecord(report)) return 'there is no object';
  if (typeof report.suite !== 'string') return 'suite is no text';
  if (!isRecord(report.machine)) return 'machine is no object';
  for (const list of ['results', 'ratios']) {
    const rows = report[list];
    if (!Array.isArray(rows)) return `${list} is no array`;
    for (const [i, row] of rows.entries()) {
      if (!isRecord(row)) return `${list}[${i}] is no object`;
      const texts = list === 'results' ? ['name', 'engine', 'ring', 'unit'] : ['name', 'engine', 'ring'];
      for (const key of texts) if (typeof row[key] !== 'string') return `${list}[${i}].${key} is no text`;
      if (!isRecord(row.params)) return `${list}[${i}].params is no object`;
      const numbers = ['median', 'min', 'max'].map((key) => row[key]);
      if (!numbers.every((value) => typeof value === 'number' && value >= 0 && value < Infinity))
        return `${list}[${i}] has no median, min and max from 0 on`;
      const [median, min, max] = numbers as number[];
      if (min > median || median > max) return `${list}[${i}]: its median is not between min and max`;
    }
  }
  return undefined;
}

/** A figure that was measured once has no range of its own. */
const SINGLE_RUN = 0.1;
/** Differences that are as small in the unit itself say nothing: a fraction of a byte per buffer, say. */
const SINGLE_LEAST = 0.5;

/**
 * Compares the suites that both have. A figure changed if the range of its runs, from the fastest to the slowest,
 * has nothing in common with the range that it had. That is a careful rule: of two times nine runs of the same
 * thing one in 24310 would be told apart so, and no assumption about how the runs are distributed is needed. But
 * runs of one sitting have their disturbances in common, and another sitting has others. A ratio is taken within a
 * round, so what slows both sides down does not show in it. Times are compared only where machine and runtime are
 * the same, and after what they have in common was taken out of them: on a busier machine all take longer. That is
 * told as one figure. They stand behind the ratios.
 */
export function compare(before: readonly Report[], after: readonly Report[]): Comparison[] {
  return after.flatMap((report) => {
    const old = before.find(({ suite }) => suite === report.suite);
    return old === undefined ? [] : [compareSuite(old, report)];
  });
}

function compareSuite(before: Report, after: Report): Comparison {
  const machines = machineDifference(before.machine, after.machine);
  const rows = (report: Report): Map<string, Ratio | Result> =>
    new Map(
      [...report.ratios, ...(machines === undefined ? report.results : [])].map((row) => [keyOf(row), row]),
    );
  const old = rows(before);
  const now = rows(after);
  const drift = driftOf(old, now);
  const changes: Change[] = [];
  let compared = 0;
  for (const [key, row] of now) {
    const was = old.get(key);
    if (was === undefined) continue;
    compared++;
    const change = changeOf(was, row, drift);
    if (change !== undefined) changes.push(change);
  }
  const size = ({ gain }: Change) => Math.abs(Math.log(gain));
  changes.sort((a, b) => (a.kind === b.kind ? size(b) - size(a) : a.kind === 'ratio' ? -1 : 1));
  return {
    suite: after.suite,
    changes,
    compared,
    added: now.size - compared,
    gone: old.size - compared,
    drift,
    ...(machines !== undefined && { machines }),
  };
}

/** What a figure is of. The order of parameters means nothing; nor does what was counted beside it. */
function keyOf(row: Ratio | Result): string {
  const { name, engine, ring, params } = row;
  const { buffers: _, collections: __, ...rest } = params;
  const unit = 'unit' in row ? row.unit : '';
  return JSON.stringify([
    name,
    engine,
    ring,
    unit,
    Object.entries(rest).sort(([a], [b]) => (a < b ? -1 : 1)),
  ]);
}

/** Fewer figures have nothing in common that could be told from a change. */
const DRIFT_LEAST = 8;

/** Median of how many times as long each time took. */
function driftOf(old: Map<string, Ratio | Result>, now: Map<string, Ratio | Result>): number {
  const factors: number[] = [];
  for (const [key, row] of now) {
    const was = old.get(key);
    if (was !== undefined && isTime(row) && was.median > 0 && row.median > 0)
      factors.push(row.median / was.median);
  }
  return factors.length < DRIFT_LEAST ? 1 : spread(factors).median;
}

const isTime = (row: Ratio | Result): boolean => 'unit' in row && row.unit.startsWith('ns/');

function changeOf(before: Ratio | Result, after: Ratio | Result, drift: number): Change | undefined {
  const expected = isTime(after) ? drift : 1;
  const is = rangeOf(after);
  const range = rangeOf(before);
  const was = { min: range.min * expected, max: range.max * expected };
  if (was.max >= is.min && is.max >= was.min) return undefined;
  const { name, engine, ring, params } = after;
  const common = { name, engine, ring, params, before: spreadOf(before), after: spreadOf(after) };
  // Neither is 0 in both, or the ranges would overlap; a range that has no number but 0 becomes small.
  const factor = Math.max(after.median, 1e-6) / Math.max(before.median * expected, 1e-6);
  return 'unit' in after
    ? { kind: 'result', ...common, unit: after.unit, gain: 1 / factor }
    : { kind: 'ratio', ...common, gain: factor };
}

function rangeOf(row: Ratio | Result): { min: number; max: number } {
  const { min, max, median } = row;
  if (!('runs' in row) || row.runs > 1) return { min, max };
  const margin = Math.max(median * SINGLE_RUN, SINGLE_LEAST);
  return { min: min - margin, max: max + margin };
}

const spreadOf = ({ median, min, max }: Spread): Spread => ({ median, min, max });

function machineDifference(before: Machine, after: Machine): string | undefined {
  const differ = (['cpu', 'cores', 'node', 'v8', 'platform'] as const)
    .filter((key) => before[key] !== after[key])
    .map((key) => `${key} ${before[key]} → ${after[key]}`);
  return differ.length === 0 ? undefined : differ.join(', ');
}

/** One sentence about a comparison, for the terminal and for the page. */
export function summary({ changes, compared, added, gone, drift, machines }: Comparison): string {
  const counts = `${changes.length} of ${compared} figures changed beyond the noise`;
  const alone = [added > 0 && `${added} are new`, gone > 0 && `${gone} are gone`].filter(Boolean);
  return [
    [counts, ...alone].join('; '),
    ...(Math.abs(drift - 1) < 0.02
      ? []
      : [`Times as a whole are ×${drift.toFixed(2)} of before, which was taken out of each`]),
    ...(machines === undefined
      ? []
      : [`Only ratios were compared, because the machines differ: ${machines}`]),
  ].join('. ');
}

/** What a changed figure is of, without its parameters. */
export const changeTitle = ({ name, engine, ring, unit }: Change): string =>
  [unit === undefined ? name.replace('/', ' / ') : name, engine, ring].join(' · ');

/** "×1.20 (1.10–1.30)", "12.0 ns/buffer (11.0 – 13.0)" */
export const figure = ({ unit }: Change, spread: Spread): string =>
  unit === undefined
    ? ratio(spread)
    : `${number(spread.median)} ${unit} (${number(spread.min)}–${number(spread.max)})`;

/** "+12 %" */
export const gain = (change: Change): string => {
  const percent = (change.gain - 1) * 100;
  return change.gain >= 3 || change.gain <= 1 / 3
    ? `×${change.gain.toFixed(2)}`
    : `${percent < 0 ? '−' : '+'}${Math.abs(percent).toFixed(0)} %`;
};
