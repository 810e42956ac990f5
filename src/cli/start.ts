import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { readCapture } from './capture/capture.js';
import { Failure } from './errors.js';
import type { Io } from './io.js';
import { rounds } from './options.js';
import { DEFAULTS, type RunOptions, replayCaptures } from './replay/run.js';
import { number } from './table.js';

/** The same from src/cli and from dist/cli. The published package does not have them. */
const CAPTURES = fileURLToPath(new URL('../../test/data/captures/', import.meta.url));

type StartOptions = Pick<RunOptions, 'rounds' | 'json'>;

export function addStart(program: Command, io: Io): void {
  program
    .command('start')
    .description('replay the captures of the source repository through both rings, on both engines')
    .addOption(rounds(DEFAULTS.rounds))
    .option('--json <file>', 'write the numbers to a file')
    .action((options: StartOptions) => start(options, io));
}

async function start(options: StartOptions, io: Io): Promise<void> {
  const names = (await readdir(CAPTURES).catch(() => [])).filter((name) => name.endsWith('.pcap')).sort();
  if (names.length === 0)
    throw new Failure(
      'the captures are in the source repository only: use `vring replay FILE` with a capture of yours',
    );
  const captures = await Promise.all(names.map((name) => readCapture(join(CAPTURES, name))));
  const frames = captures.reduce((sum, capture) => sum + capture.frames.length, 0);
  const { size, burst } = DEFAULTS;
  io.out(
    `Replaying ${number(frames)} captured frames through a transmit and a receive queue of ${size} descriptors, ` +
      `${burst} frames per burst, in split and packed rings and on both engines; every byte is compared.`,
  );
  await replayCaptures(captures, { ...DEFAULTS, ...options }, io);
}
