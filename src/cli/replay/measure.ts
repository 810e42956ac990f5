import type { RingFormat } from '../../index.js';
import { Failure } from '../errors.js';
import { machine, type Params, type Ratio, type Report, type Result, spread } from '../report.js';
import type { Frames } from './frames.js';
import type { Run } from './replay.js';

/** Whatever replays all packets so many times: a worker, or the replay itself in a test. */
export interface Engine {
  name: 'wasm' | 'typescript';
  ring: RingFormat;
  run(passes: number): Promise<Run>;
}

export interface MeasureOptions {
  rounds: number;
  /** How often the captures are replayed in a round; as often as a round needs to last long enough, if absent. */
  passes?: number;
  params: Params;
}

/** A round must be long against the scheduler of the operating system and the timer. */
const ROUND_MS = 20;
const WARM_UP_MS = 300;

export interface Tally {
  engine: string;
  ring: RingFormat;
  /** Nanoseconds per packet of each round. */
  perPacket: number[];
  packets: number;
  bytes: number;
  ns: number;
  kicksSent: number;
  kicksSuppressed: number;
  interruptsSent: number;
  interruptsSuppressed: number;
  mismatches: number;
}

/** Warms the engines up and runs them in turn, so that what disturbs the machine disturbs all of them. */
export async function measure(
  engines: readonly Engine[],
  frames: Frames,
  options: MeasureOptions,
  step: (engine: Engine) => void,
): Promise<{ report: Report; tallies: Tally[]; passes: number }> {
  const tallies = engines.map(newTally);
  let passes = options.passes ?? 1;
  for (const [i, engine] of engines.entries()) {
    const { mismatches, enough } = await warmUp(engine, options.passes);
    // What goes wrong in the warm-up is wrong too.
    tallies[i].mismatches += mismatches;
    passes = Math.max(passes, enough);
  }
  for (let round = 0; round < options.rounds; round++) {
    for (const [i, engine] of engines.entries()) {
      add(tallies[i], await engine.run(passes), frames.frameBytes * passes);
      step(engine);
    }
  }
  return { report: toReport(tallies, { ...options.params, passes }), tallies, passes };
}

/** @returns as many passes as make a round last long enough, unless they are given */
async function warmUp(engine: Engine, given?: number): Promise<{ mismatches: number; enough: number }> {
  let mismatches = 0;
  let enough = given ?? 1;
  let spent = 0;
  do {
    const run = await engine.run(enough);
    mismatches += run.mismatches;
    const ms = run.ns / 1e6;
    spent += ms;
    if (given === undefined) enough = Math.max(enough, Math.ceil((enough * ROUND_MS) / ms));
  } while (given === undefined && spent < WARM_UP_MS);
  return { mismatches, enough };
}

const newTally = ({ name, ring }: Engine): Tally => ({
  engine: name,
  ring,
  perPacket: [],
  packets: 0,
  bytes: 0,
  ns: 0,
  kicksSent: 0,
  kicksSuppressed: 0,
  interruptsSent: 0,
  interruptsSuppressed: 0,
  mismatches: 0,
});

function add(tally: Tally, run: Run, bytes: number): void {
  tally.perPacket.push(run.ns / run.packets);
  tally.packets += run.packets;
  tally.bytes += bytes;
  tally.ns += run.ns;
  tally.kicksSent += run.notifications.kicksSent;
  tally.kicksSuppressed += run.notifications.kicksSuppressed;
  tally.interruptsSent += run.notifications.interruptsSent;
  tally.interruptsSuppressed += run.notifications.interruptsSuppressed;
  tally.mismatches += run.mismatches;
}

function toReport(tallies: readonly Tally[], params: Params): Report {
  const results: Result[] = [];
  for (const tally of tallies) {
    const runs = tally.perPacket.length;
    const bits = (tally.bytes / tally.packets) * 8;
    const result = (name: string, unit: string, values: number[]) =>
      results.push({ name, engine: tally.engine, ring: tally.ring, unit, ...spread(values), runs, params });
    result('time', 'ns/packet', tally.perPacket);
    result(
      'packet-rate',
      'Mpps',
      tally.perPacket.map((ns) => 1e3 / ns),
    );
    result(
      'bit-rate',
      'Gbit/s',
      tally.perPacket.map((ns) => bits / ns),
    );
    for (const name of COUNTS) result(name, 'count', [tally[name]]);
  }
  return { suite: 'replay', machine: machine(), results, ratios: toRatios(tallies, params) };
}

/** Counts over all rounds. */
const COUNTS = [
  'packets',
  'bytes',
  'kicksSent',
  'kicksSuppressed',
  'interruptsSent',
  'interruptsSuppressed',
  'mismatches',
] as const;

/** Of every two that differ in the engine alone, or in the ring alone. */
function toRatios(tallies: readonly Tally[], params: Params): Ratio[] {
  const find = (engine: string, ring: RingFormat) =>
    tallies.find((tally) => tally.engine === engine && tally.ring === ring);
  const ratios: Ratio[] = [];
  const compare = (name: string, engine: string, ring: string, a?: Tally, b?: Tally) => {
    if (a === undefined || b === undefined) return;
    // Round by round: both ran at about the same time then.
    const values = a.perPacket.map((ns, round) => b.perPacket[round] / ns);
    ratios.push({ name, engine, ring, params, ...spread(values), reported: null });
  };
  for (const ring of ['split', 'packed'] as const)
    compare('wasm/typescript', 'both', ring, find('wasm', ring), find('typescript', ring));
  for (const engine of ['wasm', 'typescript'])
    compare('packed/split', engine, 'both', find(engine, 'packed'), find(engine, 'split'));
  return ratios;
}

/** @throws Failure if a byte was wrong */
export function requireSound(tallies: readonly Tally[]): void {
  const wrong = tallies.filter(({ mismatches }) => mismatches > 0);
  if (wrong.length > 0)
    throw new Failure(
      wrong
        .map(
          ({ engine, ring, mismatches }) => `${engine}, ${ring} ring: ${mismatches} buffers came back wrong`,
        )
        .join('; '),
    );
}
