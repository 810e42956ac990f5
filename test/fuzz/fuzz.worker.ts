// Runs scenarios, one after the other, until it is told to stop or there are no more.
import { parentPort, workerData } from 'node:worker_threads';
import { minimise } from './minimise.js';
import { isQueueKind } from './ops.js';
import { Progress, type WorkerJob, type WorkerNews } from './progress.js';
import type { Finding } from './scenario.js';
import { makeTrial, runTrial, scenarioSeed, type Trial } from './trial.js';
import { createPlaces, type Place } from './world.js';

const { seed, first, stride, scenarios, shared, minimised: limit, replay } = workerData as WorkerJob;
const progress = new Progress(shared);
// Errors are what a hostile peer makes all the time; nobody looks at where they come from.
Error.stackTraceLimit = 0;

const tell = (news: WorkerNews) => parentPort?.postMessage(news);

/** The lines go out one by one: the last one may be where it hangs. */
async function runReplay(trial: Trial): Promise<void> {
  const trace: string[] = [];
  const send = () => {
    for (const line of trace.splice(0)) tell({ kind: 'line', line });
  };
  const step = (at: number) => {
    send();
    progress.step(at);
  };
  progress.start(0);
  const finding = runTrial(await createPlaces(), trial, { every: 1, trace, step });
  send();
  progress.finish(trial.ops.length, 0);
  if (finding === undefined) return;
  progress.fail();
  tell({ kind: 'finding', trial, finding, trace });
}

async function main(): Promise<void> {
  let places = await createPlaces();
  const seen = new Set<string>();
  for (let index = first; index < scenarios && !progress.stopped; index += stride) {
    const trial = makeTrial(scenarioSeed(seed, index));
    progress.start(index);
    const finding = runTrial(places, trial, { step: (at) => progress.step(at) });
    let asked = 0;
    for (const [kind] of trial.ops) if (isQueueKind(kind)) asked++;
    progress.finish(asked, trial.ops.length - asked);
    if (finding === undefined) continue;
    progress.fail();
    const name = signature(finding);
    if (!seen.has(name) && seen.size < limit) {
      seen.add(name);
      places = await renew(places);
      Error.stackTraceLimit = 10;
      // With a hang in sight, the watchdog must see that this one is at work.
      const small = minimise(places, trial, finding, () => progress.beat());
      const trace: string[] = [];
      runTrial(places, small.trial, { every: 1, trace });
      tell({ kind: 'finding', ...small, trace });
      Error.stackTraceLimit = 0;
    }
    // What a finding leaves behind must not be the cause of another.
    places = await renew(places);
  }
}

/** Other memories in the place of those in which something was left behind. */
async function renew(places: Place[]): Promise<Place[]> {
  return places.every(({ host }) => host.used === 0) ? places : createPlaces();
}

/** What findings have in common that are probably the same one. */
function signature({ rule, during, message }: Finding): string {
  // What is compared now and then shows in any operation.
  const where = rule === 'state' || rule === 'bytes' ? '' : during;
  return `${rule} ${where} ${message.replace(/\d+|0x[\da-f]+/g, '#').slice(0, 60)}`;
}

if (replay !== undefined) await runReplay(replay);
else await main();
tell({ kind: 'done' });
