// What `vring inspect` is given: a file, and where in it things are.
import { readFile } from 'node:fs/promises';
import { VringError } from '../../index.js';
import type { DeviceInspection, DriverInspection } from '../../queue/inspect/inspect.js';
import type { PackedDumpView } from '../../queue/inspect/packed-dump.js';
import type { SplitDumpView } from '../../queue/inspect/split-dump.js';
import { Failure, systemReason, UsageError } from '../errors.js';
import { dumpOfImage, type ImagePlace } from './image.js';
import { dumpOfJson, isDump } from './json-dump.js';
import { inspectSaved, isSaved } from './saved.js';

export type Inspected = DriverInspection | DeviceInspection | SplitDumpView | PackedDumpView;

export interface SourceOptions extends Partial<ImagePlace> {
  step?: number;
  memory?: string;
}

const PLACE = ['ring', 'size', 'descriptor', 'driver', 'device'] as const;

/** @throws Failure, UsageError */
export async function inspectFile(file: string, options: SourceOptions): Promise<Inspected> {
  const { step, memory } = options;
  const place = imagePlace(options);
  if (place !== undefined && (step !== undefined || memory !== undefined))
    throw new UsageError('--step and --memory are for JSON files, the other options for a memory image');
  const bytes = await read(file);
  const image = memory === undefined ? undefined : { file: memory, bytes: await read(memory) };
  return named(file, () => {
    if (place !== undefined) return dumpOfImage(bytes, place);
    const json = parse(bytes);
    if (isSaved(json)) {
      if (step !== undefined) throw new UsageError('--step is for traces, and this is a saved queue');
      return inspectSaved(json, image?.bytes);
    }
    if (image !== undefined) throw new UsageError('--memory is for saved queues, and this is not one');
    if (isDump(json)) return dumpOfJson(json, step);
    throw new Failure(
      'neither a saved queue ({side, ring, size, …}) nor a dump of a ring ({ring, size, desc, …}, or {ring, num, steps})',
    );
  });
}

/** All of the options that say where in a memory image the ring is, or none. */
function imagePlace(options: SourceOptions): ImagePlace | undefined {
  const missing = PLACE.filter((name) => options[name] === undefined);
  if (missing.length === PLACE.length) return undefined;
  if (missing.length > 0)
    throw new UsageError(`a memory image needs ${missing.map((name) => `--${name}`).join(', ')}, too`);
  return options as ImagePlace;
}

async function read(file: string): Promise<Uint8Array> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new Failure(`${file}: cannot be read: ${systemReason(error)}`);
  }
}

function parse(bytes: Uint8Array): Record<string, unknown> {
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    const reason = error instanceof SyntaxError ? ` (${error.message})` : '';
    throw new Failure(
      `not JSON${reason}; for a memory image give ${PLACE.map((name) => `--${name}`).join(', ')}`,
    );
  }
  return typeof json === 'object' && json !== null ? (json as Record<string, unknown>) : {};
}

/** Runs a reader of a file, so that its errors name the file. */
function named<T>(file: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof UsageError) throw new UsageError(`${file}: ${error.message}`);
    if (error instanceof VringError) throw new Failure(`${file}: ${error.message.replace(/^\w+: /, '')}`);
    if (error instanceof Failure) throw new Failure(`${file}: ${error.message}`);
    throw error;
  }
}
