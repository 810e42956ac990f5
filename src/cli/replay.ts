import { type Command, Option } from 'commander';
import { type Capture, readCapture } from './capture/capture.js';
import { Failure, UsageError } from './errors.js';
import type { Io } from './io.js';
import { count, rounds } from './options.js';
import { depth } from './replay/replay.js';
import { DEFAULTS, type RunOptions, replayCaptures } from './replay/run.js';

const QUEUE_SIZE_MAX = 32768;

export function addReplay(program: Command, io: Io): void {
  program
    .command('replay')
    .description('send the frames of captures through a transmit and a receive queue, and compare every byte')
    .argument('<file...>', 'captures (pcap or pcapng)')
    .addOption(
      new Option('-e, --engine <name>', 'engine')
        .choices(['wasm', 'typescript', 'both'])
        .default(DEFAULTS.engine),
    )
    .addOption(
      new Option('--ring <format>', 'ring format')
        .choices(['split', 'packed', 'both'])
        .default(DEFAULTS.ring),
    )
    .option(
      '-s, --size <n>',
      'descriptors of each queue: a power of two in a split ring',
      count(QUEUE_SIZE_MAX),
      DEFAULTS.size,
    )
    .option('-b, --burst <n>', 'packets per burst', count(QUEUE_SIZE_MAX), DEFAULTS.burst)
    .option(
      '--segments <n>',
      'segments per packet: header, and payload in n - 1 parts',
      count(64),
      DEFAULTS.segments,
    )
    .addOption(rounds(DEFAULTS.rounds))
    .option(
      '--passes <n>',
      'replays of the captures in a round (default: as many as take 20 ms)',
      count(1_000_000),
    )
    .option('--event-idx', 'negotiate EVENT_IDX', DEFAULTS.eventIdx)
    .option('--no-event-idx', 'suppress notifications with flags alone')
    .option('--indirect', 'negotiate INDIRECT_DESC', DEFAULTS.indirect)
    .option('--no-indirect', 'chain descriptors')
    .option('--json <file>', 'write the numbers to a file')
    .action((files: string[], options: RunOptions) => replay(files, options, io));
}

async function replay(files: string[], options: RunOptions, io: Io): Promise<void> {
  checkSize(options);
  checkDepth(options);
  const captures: Capture[] = [];
  for (const file of files) captures.push(await readCapture(file));
  const damaged = captures.flatMap(({ damage, frames, bytes }, i) =>
    damage === undefined
      ? []
      : [
          `${files[i]}: at byte ${damage.offset} ${damage.reason}; ` +
            `${frames.length} frames (${bytes} bytes) before it are sound`,
        ],
  );
  if (damaged.length > 0) throw new Failure(damaged.join('\n'));
  await replayCaptures(captures, options, io);
}

function checkSize({ ring, size }: RunOptions): void {
  if (ring !== 'packed' && (size & (size - 1)) !== 0)
    throw new UsageError(
      `a split ring has a power of two of descriptors, not ${size}: use another --size, or --ring packed`,
    );
}

/** A burst must fit the queue, else driver and device would wait for each other. */
function checkDepth(options: RunOptions): void {
  const { size, burst, segments, indirect } = options;
  const most = depth(options);
  if (segments > size)
    throw new UsageError(
      `a packet of ${segments} segments does not fit a queue of ${size}: use a larger --size`,
    );
  if (burst > most)
    throw new UsageError(
      `a queue of ${size} holds ${most} packets${indirect ? '' : ` of ${segments} segments`}, a burst has ${burst}: ` +
        'use a smaller --burst or a larger --size',
    );
}
