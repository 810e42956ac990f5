// A dump of a ring as JSON: `{ring, size, …}` with the areas in hex, or a trace of many steps.
import type { Reach, RingBytes } from '../../queue/inspect/bytes.js';
import { type PackedDumpView, packedDump } from '../../queue/inspect/packed-dump.js';
import { type SplitDumpView, splitDump } from '../../queue/inspect/split-dump.js';
import { areaLayout, checkSize } from '../../queue/queue.js';
import { Failure, UsageError } from '../errors.js';

type Json = Record<string, unknown>;

/** Names of the areas in a dump, and what the queue calls them. */
const NAMES = {
  split: { desc: 'descriptor', avail: 'driver', used: 'device' },
  packed: { desc: 'descriptor', driver: 'driver', device: 'device' },
} as const;

export const isDump = ({ ring, desc, steps }: Json): boolean =>
  ring !== undefined && (desc !== undefined || steps !== undefined);

/**
 * @param step of a trace; the last one if absent
 * @throws Failure, UsageError, VringError
 */
export function dumpOfJson(json: Json, step: number | undefined): SplitDumpView | PackedDumpView {
  const { ring } = json;
  if (ring !== 'split' && ring !== 'packed')
    throw new Failure(`ring must be "split" or "packed", got ${show(ring)}`);
  const size = checkSize(ring, json.size ?? json.num);
  const moments = json.steps === undefined ? [json] : list(json.steps);
  if (json.steps === undefined && step !== undefined)
    throw new UsageError('--step is for traces, and this is a single dump');
  const at = step ?? moments.length - 1;
  if (at >= moments.length)
    throw new UsageError(`there is no step ${at}: the trace has steps 0 to ${moments.length - 1}`);
  const layout = areaLayout(ring, size);
  const area = (name: string, what: 'descriptor' | 'driver' | 'device'): DataView => {
    // An area that a step does not name is as it was before.
    const from = moments.slice(0, at + 1).findLast((moment) => moment[name] !== undefined);
    if (from === undefined) throw new Failure(`${name} is missing`);
    const view = hexBytes(from[name], name);
    if (view.byteLength !== layout[what].bytes)
      throw new Failure(
        `${name} has ${view.byteLength} bytes, in a ${ring} ring of ${size} it has ${layout[what].bytes}`,
      );
    return view;
  };
  const bytes = Object.fromEntries(
    Object.entries(NAMES[ring]).map(([name, what]) => [what, area(name, what)]),
  ) as unknown as RingBytes;
  const reach = { begin: () => {}, covers: () => true, table: tablesOf(moments.slice(0, at + 1)) };
  return ring === 'split' ? splitDump(bytes, size, reach) : packedDump(bytes, size, reach);
}

function list(steps: unknown): Json[] {
  if (!Array.isArray(steps) || steps.length === 0)
    throw new Failure(`steps must be an array that is not empty, got ${show(steps)}`);
  const bad = steps.findIndex((step) => typeof step !== 'object' || step === null);
  if (bad >= 0) throw new Failure(`steps[${bad}] must be an object, got ${show(steps[bad])}`);
  return steps;
}

/** The tables that steps name as `indirect: {addr, bytes}`; a later one at the same address counts. */
function tablesOf(moments: Json[]): Reach['table'] {
  const tables = new Map<bigint, DataView>();
  for (const { indirect } of moments) {
    if (typeof indirect !== 'object' || indirect === null) continue;
    const { addr, bytes } = indirect as Json;
    if (Number.isSafeInteger(addr) && (addr as number) >= 0)
      tables.set(BigInt(addr as number), hexBytes(bytes, 'indirect.bytes'));
  }
  return (address, length) => {
    const table = tables.get(address);
    return table?.byteLength === length ? table : undefined;
  };
}

function hexBytes(text: unknown, what: string): DataView {
  if (typeof text !== 'string' || !/^([0-9a-f]{2})*$/i.test(text))
    throw new Failure(`${what} must be a string of hex bytes, got ${show(text)}`);
  return new DataView(Uint8Array.from(Buffer.from(text, 'hex')).buffer);
}

const show = (value: unknown): string => JSON.stringify(value)?.slice(0, 40) ?? 'nothing';
