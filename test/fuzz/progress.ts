import type { Finding } from './scenario.js';
import type { Trial } from './trial.js';

/** What a worker is given. */
export interface WorkerJob {
  seed: number;
  /** Scenarios `first`, `first + stride`, … below `scenarios`. */
  first: number;
  stride: number;
  scenarios: number;
  shared: SharedArrayBuffer;
  /** How many findings to minimise: the others are counted. */
  minimised: number;
  /** Run this one and nothing else, and say what happens. */
  replay?: Trial;
}

/** What a worker says. */
export type WorkerNews =
  | { kind: 'finding'; trial: Trial; finding: Finding; trace: string[] }
  | { kind: 'line'; line: string }
  | { kind: 'done' };

const STOP = 0;
const BEAT = 1;
const STEP = 2;
const WORDS = 4;

const SCENARIO = 0;
const OPERATIONS = 1;
const PEER = 2;
const SCENARIOS = 3;
const FAILED = 4;
const COUNTS = 5;

/** How far a worker has come, in memory that the parent sees even while the worker hangs. */
export class Progress {
  static readonly BYTES = WORDS * 4 + COUNTS * 8;
  private readonly words: Int32Array;
  private readonly counts: Float64Array;

  constructor(shared: SharedArrayBuffer) {
    this.words = new Int32Array(shared, 0, WORDS);
    this.counts = new Float64Array(shared, WORDS * 4, COUNTS);
  }

  // ---- The worker ----

  start(scenario: number): void {
    this.counts[SCENARIO] = scenario;
    this.step(-1);
  }

  step(at: number): void {
    this.words[STEP] = at;
    this.beat();
  }

  beat(): void {
    Atomics.add(this.words, BEAT, 1);
  }

  finish(operations: number, peer: number): void {
    this.counts[OPERATIONS] += operations;
    this.counts[PEER] += peer;
    this.counts[SCENARIOS]++;
  }

  fail(): void {
    this.counts[FAILED]++;
  }

  get stopped(): boolean {
    return Atomics.load(this.words, STOP) !== 0;
  }

  // ---- The parent ----

  stop(): void {
    Atomics.store(this.words, STOP, 1);
  }

  /** Changes as long as the worker is at work. */
  get pulse(): number {
    return Atomics.load(this.words, BEAT);
  }

  /** Index of the scenario and of the operation in it. */
  get place(): { scenario: number; at: number } {
    return { scenario: this.counts[SCENARIO], at: this.words[STEP] };
  }

  get operations(): number {
    return this.counts[OPERATIONS];
  }

  get peerOperations(): number {
    return this.counts[PEER];
  }

  get scenarios(): number {
    return this.counts[SCENARIOS];
  }

  get failed(): number {
    return this.counts[FAILED];
  }
}
