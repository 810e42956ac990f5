// What `vring replay` and `vring start` have in common: from captures to the table.
import type { RingFormat } from '../../index.js';
import type { Capture } from '../capture/capture.js';
import { Failure } from '../errors.js';
import type { Io } from '../io.js';
import { Progress } from '../progress.js';
import { checkWritable, type Ratio, spread, toJson, writeReport } from '../report.js';
import { number, range, ratio, table } from '../table.js';
import { Contender } from '../worker.js';
import { collectFrames } from './frames.js';
import { type Engine, measure, requireSound, type Tally } from './measure.js';
import { type Load, memoryBytes } from './replay.js';
import type { Reply, Request, WorkerData } from './replay.worker.js';

export interface RunOptions extends Load {
  ring: RingFormat | 'both';
  engine: 'wasm' | 'typescript' | 'both';
  rounds: number;
  passes?: number;
  json?: string;
}

export const DEFAULTS = {
  ring: 'both',
  engine: 'both',
  size: 256,
  burst: 32,
  segments: 1,
  rounds: 15,
  eventIdx: true,
  indirect: true,
} as const satisfies RunOptions;

const MEMORY_MAX = 2 ** 31;

/** @throws Failure */
export async function replayCaptures(
  captures: readonly Capture[],
  options: RunOptions,
  io: Io,
): Promise<void> {
  const { ring, engine, rounds, passes, json, size, burst, segments, eventIdx, indirect } = options;
  const rings = ring === 'both' ? (['split', 'packed'] as const) : [ring];
  const names = engine === 'both' ? (['wasm', 'typescript'] as const) : [engine];
  const load: Load = { size, burst, segments, eventIdx, indirect };
  const frames = collectFrames(captures);
  if (frames.offsets.length === 0) throw new Failure('there is no frame to replay in the given files');
  const bytes = memoryBytes(frames, load);
  if (bytes > MEMORY_MAX)
    throw new Failure(
      `the replay would take ${number(Math.ceil(bytes / 2 ** 20))} MiB of memory, the limit is ` +
        `${number(MEMORY_MAX / 2 ** 20)} MiB: use a smaller --size or fewer captures`,
    );
  await checkWritable(json);

  const workers: Contender<Request, Reply>[] = [];
  const engines: Engine[] = [];
  for (const format of rings)
    for (const name of names) {
      const data: WorkerData = { engine: name, frames, options: { ...load, ring: format } };
      const worker = new Contender<Request, Reply>('replay.worker', import.meta.url, data);
      workers.push(worker);
      engines.push({
        name,
        ring: format,
        async run(passes) {
          const reply = await worker.ask(passes);
          if ('error' in reply) throw new Failure(`${name}, ${format} ring: ${reply.error}`);
          return reply.run;
        },
      });
    }
  const progress = new Progress(io, 'replay', rounds * engines.length);
  try {
    const {
      report,
      tallies,
      passes: taken,
    } = await measure(
      engines,
      frames,
      {
        rounds,
        ...(passes !== undefined && { passes }),
        params: {
          files: captures.map(({ name }) => name).join(', '),
          size,
          burst,
          segments,
          eventIdx,
          indirect,
          rounds,
        },
      },
      ({ name, ring }) => progress.step(`${ring} ${name}`),
    );
    progress.stop();
    if (json !== undefined) await writeReport(json, toJson(report));
    for (const format of rings)
      io.out(
        toTable(
          format,
          tallies.filter(({ ring }) => ring === format),
        ),
      );
    for (const found of report.ratios)
      io.out(`${title(found)} ${ratio(found)}, median (min – max) of ${rounds} interleaved rounds`);
    io.out(
      `Each round replays ${number(frames.offsets.length)} packets ${taken === 1 ? 'once' : `${number(taken)} times`}. ` +
        'Gbit/s count the frames, without the 12-byte header.',
    );
    requireSound(tallies);
  } finally {
    progress.stop();
    await Promise.all(workers.map((worker) => worker.stop()));
  }
}

/** What a ratio compares, and in what the two agree. */
function title({ name, engine, ring }: Ratio): string {
  return name === 'packed/split' ? `Packed : split, ${engine}` : `Wasm : TypeScript, ${ring} ring`;
}

function toTable(ring: RingFormat, tallies: readonly Tally[]): string {
  const rate = (tally: Tally, amount: (ns: number) => number) => range(spread(tally.perPacket.map(amount)));
  const rows: [string, (tally: Tally) => string][] = [
    ['packets', (tally) => number(tally.packets)],
    ['bytes', (tally) => number(tally.bytes)],
    ['Mpps', (tally) => rate(tally, (ns) => 1e3 / ns)],
    ['Gbit/s', (tally) => rate(tally, (ns) => ((tally.bytes / tally.packets) * 8) / ns)],
    ['ns per packet', (tally) => rate(tally, (ns) => ns)],
    ['kicks sent', (tally) => number(tally.kicksSent)],
    ['kicks suppressed', (tally) => number(tally.kicksSuppressed)],
    ['interrupts sent', (tally) => number(tally.interruptsSent)],
    ['interrupts suppressed', (tally) => number(tally.interruptsSuppressed)],
    ['mismatches', (tally) => number(tally.mismatches)],
  ];
  return table(
    [`${ring} ring`, ...tallies.map(({ engine }) => engine)],
    rows.map(([name, cell]) => [name, ...tallies.map(cell)]),
  );
}
