import type { Worker } from 'node:worker_threads';
import { startWorker } from '../support/worker.js';
import { Progress, type WorkerJob, type WorkerNews } from './progress.js';
import { saveTrial } from './saved.js';
import type { Finding } from './scenario.js';
import { makeTrial, scenarioSeed } from './trial.js';

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
  onFinding?: (finding: Finding, path: string) => void;
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

/** One worker and what is known of it. */
class Runner {
  readonly progress: Progress;
  private readonly worker: Worker;
  private pulse = -1;
  private since = performance.now();
  readonly done: Promise<void>;
  private resolve!: () => void;

  constructor(
    private readonly options: CampaignOptions,
    first: number,
  ) {
    const { seed, jobs, scenarios = Number.MAX_SAFE_INTEGER } = options;
    const shared = new SharedArrayBuffer(Progress.BYTES);
    this.progress = new Progress(shared);
    const job: WorkerJob = { seed, first, stride: jobs, scenarios, shared, minimised: MINIMISED };
    this.worker = startWorker(new URL('./fuzz.worker.ts', import.meta.url), { workerData: job });
    this.done = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.worker.on('message', (news: WorkerNews) => this.hear(news));
      this.worker.on('error', reject);
      this.worker.on('exit', (code) => {
        if (code === 0) resolve();
        else reject(new Error(`a worker ended with exit code ${code}`));
      });
    });
  }

  private hear(news: WorkerNews): void {
    if (news.kind !== 'finding') return;
    this.report(news.finding, saveTrial(news.trial, news.finding, news.trace));
  }

  private report(finding: Finding, path: string): void {
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
    const { patience = 30 } = this.options;
    if (now - this.since < patience * 1000) return;
    this.since = Number.POSITIVE_INFINITY;
    const { scenario, at } = this.progress.place;
    const trial = makeTrial(scenarioSeed(this.options.seed, scenario));
    const finding: Finding = {
      rule: 'hang',
      during: trial.ops[at]?.[0] ?? 'recovery',
      message: `no step for ${patience} seconds in scenario ${scenario}, operation ${at}`,
      at,
    };
    const ops = at >= 0 ? trial.ops.slice(0, at + 1) : trial.ops;
    this.progress.fail();
    this.report(finding, saveTrial({ ...trial, ops }, finding, []));
    this.worker.removeAllListeners('exit');
    this.worker.terminate().then(this.resolve, this.resolve);
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
