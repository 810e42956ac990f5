import type { Worker } from 'node:worker_threads';
import { startWorker } from '../support/worker.js';
import { Progress, type WorkerJob, type WorkerNews } from './progress.js';
import { saveTrial } from './saved.js';
import type { Finding } from './scenario.js';
import { makeTrial, scenarioSeed, type Trial } from './trial.js';

export interface CampaignOptions {
  seed: number;
  jobs: number;
  /** When to stop; at the end of a scenario. */
  seconds?: number;
  /** How many scenarios in all. */
  scenarios?: number;
  /** How long a worker may go without a step. */
  patience?: number;
  onTick?: (totals: Totals) => void;
  /** @param path where it was saved, if it was not known before */
  onFinding?: (finding: Finding, path: string | undefined) => void;
  /** Run this one and nothing else. */
  replay?: Trial;
  /** Takes each step of it, in words. */
  onLine?: (line: string) => void;
}

export interface Totals {
  /** Operations of the queues, each done by both engines. */
  operations: number;
  /** What the peer did in between. */
  peerOperations: number;
  scenarios: number;
  failed: number;
  seconds: number;
}

const TICK = 200;
const MINIMISED = 8;
/** Hangs after which a worker is not started again. */
const HANGS = 5;

/** One worker after the other, and what is known of the present one. */
class Runner {
  readonly progress: Progress;
  readonly done: Promise<void>;
  private readonly shared = new SharedArrayBuffer(Progress.BYTES);
  private worker!: Worker;
  /** The one that was ended from here. */
  private given: Worker | undefined;
  private pulse = -1;
  private since = performance.now();
  private hangs = 0;
  private resolve!: () => void;
  private reject!: (error: Error) => void;

  constructor(
    private readonly options: CampaignOptions,
    first: number,
  ) {
    this.progress = new Progress(this.shared);
    this.done = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    this.start(first);
  }

  private start(first: number): void {
    const { seed, jobs, scenarios = Number.MAX_SAFE_INTEGER, replay } = this.options;
    const { shared } = this;
    const limits = { stride: jobs, scenarios, minimised: MINIMISED };
    const job: WorkerJob = { seed, first, ...limits, shared, ...(replay && { replay }) };
    const worker = startWorker(new URL('./fuzz.worker.ts', import.meta.url), { workerData: job });
    this.since = performance.now();
    let done = false;
    worker.on('message', (news: WorkerNews) => {
      if (news.kind === 'line') this.options.onLine?.(news.line);
      else if (news.kind === 'done') done = true;
      else this.report(news.trial, news.finding, news.trace);
    });
    worker.on('error', this.reject);
    worker.on('exit', () => {
      if (done) this.resolve();
      else if (worker !== this.given) this.reject(new Error('a worker ended before it was done'));
    });
    this.worker = worker;
  }

  private report(trial: Trial, finding: Finding, trace: string[]): void {
    // What is replayed is saved already.
    const path = this.options.replay === undefined ? saveTrial(trial, finding, trace) : undefined;
    this.options.onFinding?.(finding, path);
  }

  /** Ends a worker that goes nowhere; its scenario is a finding. */
  watch(): void {
    const now = performance.now();
    const { pulse } = this.progress;
    if (pulse !== this.pulse) {
      this.pulse = pulse;
      this.since = now;
      return;
    }
    const { patience = 30, seed, jobs, replay } = this.options;
    if (now - this.since < patience * 1000) return;
    this.since = Number.POSITIVE_INFINITY;
    const { scenario, at } = this.progress.place;
    const trial = replay ?? makeTrial(scenarioSeed(seed, scenario));
    const finding: Finding = {
      rule: 'hang',
      during: trial.ops[at]?.[0] ?? 'recovery',
      message: `no step for ${patience} seconds in scenario ${scenario}, operation ${at}`,
      at,
    };
    const ops = at >= 0 ? trial.ops.slice(0, at + 1) : trial.ops;
    this.progress.finish(0, 0);
    this.progress.fail();
    this.report({ ...trial, ops }, finding, []);
    const { worker } = this;
    this.given = worker;
    const over = replay !== undefined || ++this.hangs === HANGS || this.progress.stopped;
    if (over) worker.once('exit', this.resolve);
    else this.start(scenario + jobs);
    worker.terminate();
  }
}

/** Runs scenarios from one seed until the time is over or all were run. */
export async function campaign(options: CampaignOptions): Promise<Totals> {
  const start = performance.now();
  const runners = Array.from({ length: options.jobs }, (_, first) => new Runner(options, first));
  const totals = (): Totals => {
    const sum = (count: (progress: Progress) => number) =>
      runners.reduce((total, { progress }) => total + count(progress), 0);
    return {
      operations: sum(({ operations }) => operations),
      peerOperations: sum(({ peerOperations }) => peerOperations),
      scenarios: sum(({ scenarios }) => scenarios),
      failed: sum(({ failed }) => failed),
      seconds: (performance.now() - start) / 1000,
    };
  };
  const { seconds = Number.POSITIVE_INFINITY } = options;
  const timer = setInterval(() => {
    for (const runner of runners) runner.watch();
    if (performance.now() - start >= seconds * 1000) for (const { progress } of runners) progress.stop();
    options.onTick?.(totals());
  }, TICK);
  try {
    await Promise.all(runners.map(({ done }) => done));
  } finally {
    clearInterval(timer);
  }
  return totals();
}
