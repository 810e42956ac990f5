// What a measurement hands out: the same numbers for the terminal, JSON and HTML.
import { writeFile } from 'node:fs/promises';
import { availableParallelism, cpus } from 'node:os';
import { Failure, systemReason } from './errors.js';

export interface Spread {
  median: number;
  min: number;
  max: number;
}

export type Params = Record<string, string | number | boolean>;

export interface Result extends Spread {
  /** Which contender or which count. */
  name: string;
  engine: string;
  ring: string;
  unit: string;
  runs: number;
  params: Params;
}

/** A figure by itself: neither a time nor a point of a curve, which is drawn. */
export const isFact = ({ unit }: Result): boolean => !unit.startsWith('ns/') && unit !== 'segments';

/** Throughput over throughput: above 1 means that the first is faster. */
export interface Ratio extends Spread {
  /** `a/b` */
  name: string;
  engine: string;
  ring: string;
  params: Params;
  /** The figure that a proposal's author gave, if there is one. */
  reported: number | null;
}

export interface Report {
  suite: string;
  machine: Machine;
  results: Result[];
  ratios: Ratio[];
}

/** What a reader needs to judge the numbers, and nothing that tells whose machine it is. */
export interface Machine {
  cpu: string;
  cores: number;
  node: string;
  v8: string;
  platform: string;
}

export const machine = (): Machine => ({
  cpu: cpus()[0]?.model.trim() || 'unknown',
  cores: availableParallelism(),
  node: process.versions.node,
  v8: process.versions.v8,
  platform: `${process.platform} ${process.arch}`,
});

/** @param values at least one */
export function spread(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >>> 1;
  const median = sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  return { median, min: sorted[0], max: sorted[sorted.length - 1] };
}

/** Finds out before the work, not after it, that a file cannot be written. @throws Failure */
export async function checkWritable(file: string | undefined): Promise<void> {
  // Opening for appending changes nothing in a file that is there.
  if (file !== undefined) await write(file, '', 'a');
}

/** @throws Failure */
export async function writeReport(file: string, text: string): Promise<void> {
  await write(file, text, 'w');
}

async function write(file: string, text: string, flag: string): Promise<void> {
  try {
    await writeFile(file, text, { flag });
  } catch (error) {
    throw new Failure(`${file}: cannot be written: ${systemReason(error)}`);
  }
}

export const toJson = (report: Report | Report[]): string => `${JSON.stringify(report, null, 2)}\n`;
