// Both engines under a hostile peer, for as long as there is time:
//
//     npm run fuzz -- --seconds 60 --seed 1 --jobs 2
//     npm run fuzz -- --replay build/fuzz/123.json
//
// Set VRING_WASM to the path of another build of the module, as the one with assertions, to try that.
import { parseArgs } from 'node:util';
import { campaign, type Totals } from '../test/fuzz/campaign.js';
import { readTrial } from '../test/fuzz/saved.js';
import type { Finding } from '../test/fuzz/scenario.js';

const USAGE = 'usage: npm run fuzz -- [--seconds N] [--seed N] [--jobs N] | --replay FILE';

function number(text: string | undefined, otherwise: number, min: number, max: number): number {
  const value = text === undefined ? otherwise : Number(text);
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  console.error(`${text} is not an integer from ${min} to ${max}\n${USAGE}`);
  process.exit(2);
}

function readOptions() {
  const text = { type: 'string' } as const;
  try {
    return parseArgs({ options: { seconds: text, seed: text, jobs: text, replay: text } }).values;
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n${USAGE}`);
    process.exit(2);
  }
}

/** The numbers so far, for people. */
function line({ operations, scenarios, failed, seconds }: Totals): string {
  const rate = Math.round(operations / Math.max(seconds, 0.001));
  const n = (value: number) => value.toLocaleString('en-US');
  return `${n(operations)} operations in ${n(scenarios)} scenarios · ${n(rate)}/s · ${Math.round(seconds)} s · ${failed} findings`;
}

const SILENCE = 10;

/** One line that is written again and again, or one every ten seconds where nobody watches. */
class Report {
  private readonly live = process.stderr.isTTY === true;
  private last = 0;

  tick(totals: Totals): void {
    if (this.live) process.stderr.write(`\r\x1b[K${line(totals)}`);
    else if (totals.seconds - this.last >= SILENCE) {
      this.last = totals.seconds;
      console.error(line(totals));
    }
  }

  clear(): void {
    if (this.live) process.stderr.write('\r\x1b[K');
  }
}

function print({ rule, during, message }: Finding): void {
  console.log(`${rule} in ${during}: ${message}`);
}

function replay(path: string): Promise<Totals> {
  const trial = readTrial(path);
  return campaign({
    seed: trial.seed,
    jobs: 1,
    replay: trial,
    onLine: (text) => console.log(text),
    onFinding: print,
  });
}

async function fuzz(seed: number, seconds: number, jobs: number): Promise<Totals> {
  const report = new Report();
  const totals = await campaign({
    seed,
    seconds,
    jobs,
    onTick: (now) => report.tick(now),
    onFinding: (finding, path) => {
      report.clear();
      print(finding);
      console.log(`  saved: ${path}`);
    },
  });
  report.clear();
  console.log(`${line(totals)} · seed ${seed}`);
  return totals;
}

const options = readOptions();
const seed = number(options.seed, Date.now() % 2 ** 32, 0, 2 ** 32 - 1);
const seconds = number(options.seconds, 60, 1, 1e7);
const jobs = number(options.jobs, 1, 1, 256);
const totals = options.replay === undefined ? await fuzz(seed, seconds, jobs) : await replay(options.replay);
console.log(`${totals.scenarios - totals.failed} passed, ${totals.failed} failed`);
process.exitCode = totals.failed > 0 ? 1 : 0;
