import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Feature } from '../../src/index.js';

/** [address, length] */
export type Range = [number, number];

/** [area, offset, hex]: bytes that the traced device stored. */
export type Write = [string, number, string];

/** Bytes of areas after the step; an area that a step does not name is as it was. */
interface Dump {
  num_free: number;
  desc?: string;
  avail?: string;
  used?: string;
  driver?: string;
  device?: string;
}

export interface Popped {
  id: number;
  ndesc: number;
  out: Range[];
  in: Range[];
  indirect_addr?: number;
  indirect_len?: number;
}

export type Step = Dump &
  (
    | { op: 'init' | 'disable_cb' }
    | {
        op: 'add';
        out: Range[];
        in: Range[];
        token: number;
        ret: number;
        id?: number;
        slot?: number;
        notify?: number;
        indirect?: { addr_symbol: number; addr: number; bytes: string };
      }
    | { op: 'kick_prepare' | 'enable_cb' | 'enable_cb_delayed' | 'device_need_interrupt'; ret: boolean }
    | { op: 'enable_cb_prepare'; ret: number }
    | { op: 'poll'; opaque: number; ret: boolean }
    | { op: 'interrupt'; ret: 'HANDLED' | 'NONE' }
    | {
        op: 'get_buf';
        ret_token: number | null;
        len?: number;
        indirect_freed?: number[];
        broken?: boolean;
      }
    | { op: 'detach_unused_buf'; ret_token: number | null }
    | { op: 'device_pop'; ret: Popped | null }
    | { op: 'device_push'; id: number; len: number; ndesc: number; writes: Write[] }
    | { op: 'device_enable_notify' | 'device_disable_notify' | 'device_raw'; writes: Write[] }
    | { op: 'cycles'; n: number; each: string }
  );

export interface Trace {
  name: string;
  ring: 'split' | 'packed';
  num: number;
  features: string[];
  callback: boolean;
  note: string;
  steps: Step[];
}

export type StepOf<Op extends Step['op']> = Extract<Step, { op: Op }>;

/** What `cycles` repeats: the only sequence that a trace may name without dumping it. */
export const CYCLE =
  'add(out=[[65536,64]],in=[],token=1); kick_prepare; device_pop; device_push(len=0); get_buf';

// ---- What every replay takes from a trace ----

export const bytesOf = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, 'hex'));

export const bytesIn = (ranges: Range[]): number => ranges.reduce((sum, [, length]) => sum + length, 0);

export const segmentsOf = (ranges: Range[]) => ranges.map(([address, length]) => ({ address, length }));

export function featureBits(trace: Trace): Feature[] {
  return trace.features.map((name) => {
    const bit = Feature[name as keyof typeof Feature];
    if (bit === undefined) throw new Error(`unknown feature ${name}`);
    return bit;
  });
}

/** The indirect tables of a trace lie in this range of their memory. */
export const TABLES = { start: 0x100000, limit: 2 ** 28 };

/** Where the last table of a trace ends. */
export function tablesEnd(trace: Trace): number {
  let end = TABLES.start;
  for (const step of trace.steps)
    if (step.op === 'add' && step.indirect) {
      const { addr, bytes } = step.indirect;
      if (addr < TABLES.start || addr > TABLES.limit)
        throw new Error(`the replayer does not reach a table at ${addr}`);
      end = Math.max(end, addr + bytes.length / 2);
    }
  return end;
}

// ---- Checks of the file's shape ----

type Check = (value: unknown) => boolean;

const integer: Check = (v) => Number.isSafeInteger(v) && (v as number) >= 0;
const boolean: Check = (v) => typeof v === 'boolean';
const string: Check = (v) => typeof v === 'string';
const hex: Check = (v) => typeof v === 'string' && /^([0-9a-f]{2})*$/.test(v);
const list =
  (of: Check): Check =>
  (v) =>
    Array.isArray(v) && v.every(of);
const tuple =
  (...of: Check[]): Check =>
  (v) =>
    Array.isArray(v) && v.length === of.length && of.every((check, i) => check(v[i]));
const either =
  (...of: unknown[]): Check =>
  (v) =>
    of.includes(v);
const nullOr =
  (of: Check): Check =>
  (v) =>
    v === null || of(v);
const optional =
  (of: Check): Check =>
  (v) =>
    v === undefined || of(v);
const object =
  (fields: Record<string, Check>): Check =>
  (v) =>
    typeof v === 'object' && v !== null && wrong(v as Record<string, unknown>, fields) === undefined;

/** Name of the first field that is not as it should be. */
function wrong(value: Record<string, unknown>, fields: Record<string, Check>): string | undefined {
  return Object.keys(fields).find((field) => !fields[field](value[field]));
}

const ranges = list(tuple(integer, integer));
const writes = list(tuple(string, integer, hex));

const DUMP = {
  num_free: integer,
  desc: optional(hex),
  avail: optional(hex),
  used: optional(hex),
  driver: optional(hex),
  device: optional(hex),
};

const OPS: Record<Step['op'], Record<string, Check>> = {
  init: {},
  add: {
    out: ranges,
    in: ranges,
    token: integer,
    ret: either(0, -28, -5),
    id: optional(integer),
    slot: optional(integer),
    notify: optional(integer),
    indirect: optional(object({ addr_symbol: integer, addr: integer, bytes: hex })),
  },
  kick_prepare: { ret: boolean },
  disable_cb: {},
  enable_cb: { ret: boolean },
  enable_cb_prepare: { ret: integer },
  poll: { opaque: integer, ret: boolean },
  enable_cb_delayed: { ret: boolean },
  interrupt: { ret: either('HANDLED', 'NONE') },
  get_buf: {
    ret_token: nullOr(integer),
    len: optional(integer),
    indirect_freed: optional(list(integer)),
    broken: optional(boolean),
  },
  detach_unused_buf: { ret_token: nullOr(integer) },
  device_pop: {
    ret: nullOr(
      object({
        id: integer,
        ndesc: integer,
        out: ranges,
        in: ranges,
        indirect_addr: optional(integer),
        indirect_len: optional(integer),
      }),
    ),
  },
  device_push: { id: integer, len: integer, ndesc: integer, writes },
  device_need_interrupt: { ret: boolean },
  device_enable_notify: { writes },
  device_disable_notify: { writes },
  device_raw: { writes },
  cycles: { n: integer, each: either(CYCLE) },
};

const TRACE = {
  name: string,
  ring: either('split', 'packed'),
  num: (v: unknown) => integer(v) && (v as number) >= 1 && (v as number) <= 32768,
  features: list(string),
  callback: boolean,
  note: string,
  steps: list((v) => typeof v === 'object' && v !== null),
};

/** Bytes of the areas of a ring of `num`, by their names in a dump. */
export const areaBytes = (ring: Trace['ring'], num: number): Record<string, number> =>
  ring === 'split'
    ? { desc: 16 * num, avail: 6 + 2 * num, used: 6 + 8 * num }
    : { desc: 16 * num, driver: 4, device: 4 };

/**
 * Reads a trace.
 * @param file named in the error
 * @throws Error that says which file, step and field is malformed
 */
export function parseTrace(text: string, file: string): Trace {
  const fail = (what: string): never => {
    throw new Error(`${file}: ${what}`);
  };
  let trace: Trace;
  try {
    trace = JSON.parse(text);
  } catch (error) {
    return fail(`not JSON: ${(error as Error).message}`);
  }
  if (typeof trace !== 'object' || trace === null) return fail('not a trace: an object is expected');
  const show = (value: unknown) => JSON.stringify(value)?.slice(0, 60) ?? 'missing';
  const field = wrong(trace as never, TRACE);
  if (field) fail(`${field} is malformed: ${show(trace[field as keyof Trace])}`);
  const areas = areaBytes(trace.ring, trace.num);
  for (const [i, step] of trace.steps.entries()) {
    const fields = Object.hasOwn(OPS, step.op) ? OPS[step.op] : undefined;
    if (!fields) return fail(`step ${i}: unknown op ${show(step.op)}`);
    const bad = wrong(step as never, { ...DUMP, ...fields });
    if (bad) fail(`step ${i} (${step.op}): ${bad} is malformed: ${show(step[bad as keyof Step])}`);
    if (step.op === 'add' && step.ret === 0 && step.id === undefined) fail(`step ${i} (add): id is missing`);
    if (step.op === 'get_buf' && step.ret_token !== null && step.len === undefined)
      fail(`step ${i} (get_buf): len is missing`);
    for (const [area, bytes] of Object.entries(areas)) {
      const dump = step[area as 'desc'];
      if (dump === undefined && i === 0) fail(`step 0 must have all areas, ${area} is missing`);
      if (dump !== undefined && dump.length !== 2 * bytes)
        fail(`step ${i} (${step.op}): ${area} has ${dump.length / 2} bytes, not ${bytes}`);
    }
    if ('writes' in step)
      for (const [area, offset, data] of step.writes)
        if (!(offset + data.length / 2 <= areas[area]))
          fail(`step ${i} (${step.op}): a write leaves the area ${area}`);
    // The first step shows the ring as it was made; nothing in a trace makes it anew.
    if ((step.op === 'init') !== (i === 0)) fail(`step ${i}: init must be the first step and no other`);
  }
  if (trace.steps.length === 0) fail('no steps');
  return trace;
}

/** Paths of the traces in a folder, in order of their names. */
export function traceFiles(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.json'))
    .sort()
    .map((name) => join(folder, name));
}

export function readTrace(file: string): Trace {
  return parseTrace(readFileSync(file, 'utf8'), file);
}
