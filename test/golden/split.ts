import { type DeviceQueue, type DriverQueue, Feature, type Host, VringError } from '../../src/index.js';
import type { Load } from '../support/engines.js';
import { type Descriptor, INDIRECT, SplitRing } from '../support/split-ring.js';
import { agree, inStep, Mismatch } from './mismatch.js';
import type { Range, Step, Trace, Write } from './trace.js';

// Where the traced ring lies in the replayer's own copy of it. Tables lie where the trace put them, above.
const THEIRS = { descriptor: 0, driver: 0x80000, device: 0xa0000 };
const THEIR_TABLES = 0x100000;
const THEIR_TABLES_END = 2 ** 28;

const AREAS = { desc: 'descriptor', avail: 'driver', used: 'device' } as const;

type StepOf<Op extends Step['op']> = Extract<Step, { op: Op }>;

const bytesOf = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, 'hex'));

function featureBits(trace: Trace): Feature[] {
  return trace.features.map((name) => {
    const bit = Feature[name as keyof typeof Feature];
    if (bit === undefined) throw new Error(`unknown feature ${name}`);
    return bit;
  });
}

/** The traced ring and its indirect tables as they were after the last step taken. */
function theirRing(trace: Trace): SplitRing {
  let end = THEIR_TABLES;
  for (const step of trace.steps)
    if (step.op === 'add' && step.indirect) {
      const { addr, bytes } = step.indirect;
      if (addr < THEIR_TABLES || addr > THEIR_TABLES_END)
        throw new Error(`the replayer does not reach a table at ${addr}`);
      end = Math.max(end, addr + bytes.length / 2);
    }
  return new SplitRing({ buffer: new ArrayBuffer(end) }, THEIRS, trace.num);
}

function follow(theirs: SplitRing, step: Step): void {
  const memory = new Uint8Array(theirs.memory.buffer);
  for (const [name, area] of Object.entries(AREAS) as [keyof typeof AREAS, keyof typeof THEIRS][]) {
    const dump = step[name];
    if (dump !== undefined) memory.set(bytesOf(dump), theirs.areas[area]);
  }
  if (step.op === 'add' && step.indirect) memory.set(bytesOf(step.indirect.bytes), step.indirect.addr);
}

const bytesIn = (ranges: Range[]): number => ranges.reduce((sum, [, length]) => sum + length, 0);

/** 2.7.7.2: what a device does that pushed `pushed` buffers up to used.idx `idx`. */
function interruptWanted(ring: SplitRing, eventIdx: boolean, idx: number, pushed: number): boolean {
  if (pushed === 0) return false;
  if (!eventIdx) return (ring.availFlags & 1) === 0;
  return ((idx - ring.usedEvent - 1) & 0xffff) < pushed;
}

/** True if these bytes of the used ring are one element, written as a whole. */
const isElement = ([area, offset, hex]: Write): boolean =>
  area === 'used' && offset >= 4 && (offset - 4) % 8 === 0 && hex.length === 16;

// ---- Our driver, their device ----

interface InFlight {
  token: number;
  /** Head in our ring; in theirs it is the key. */
  ours: number;
  /** avail.idx that it was added at. */
  position: number;
  writable: number;
}

class DriverReplay {
  private readonly driver: DriverQueue;
  private readonly ours: SplitRing;
  private readonly theirs: SplitRing;
  private readonly eventIdx: boolean;
  /** By their head. */
  private readonly inFlight = new Map<number, InFlight>();
  /** What their device has used and our driver not yet got, in order. */
  private readonly used: { id: number }[] = [];
  private callbacks: boolean;
  private pushed = 0;
  private opaque = 0;
  /** Our used area as their device left it: our driver must not write to it. */
  private deviceBytes: Uint8Array;

  constructor(trace: Trace, host: Host) {
    const features = featureBits(trace);
    this.driver = host.driverQueue({ ring: 'split', size: trace.num, features });
    this.eventIdx = features.includes(Feature.EVENT_IDX);
    this.callbacks = trace.callback;
    this.ours = new SplitRing(host, this.driver.areas, trace.num);
    this.theirs = theirRing(trace);
    this.deviceBytes = this.ours.deviceBytes;
  }

  step(step: Step): void {
    follow(this.theirs, step);
    this.operate(step);
    this.compare(step);
  }

  private operate(step: Step): void {
    const { driver } = this;
    switch (step.op) {
      case 'init':
        return;
      case 'add':
        this.add(step);
        break;
      case 'kick_prepare':
        agree('kickPrepare', driver.kickPrepare(), step.ret);
        break;
      case 'disable_cb':
        this.callbacks = false;
        driver.disableCallbacks();
        break;
      case 'enable_cb':
        this.callbacks = true;
        agree('enableCallbacks', driver.enableCallbacks(), step.ret);
        break;
      case 'enable_cb_prepare':
        this.callbacks = true;
        this.opaque = driver.enableCallbacksPrepare();
        return;
      case 'poll':
        agree('poll', driver.poll(this.opaque), step.ret);
        break;
      case 'enable_cb_delayed':
        this.callbacks = true;
        agree('enableCallbacksDelayed', driver.enableCallbacksDelayed(), step.ret);
        break;
      case 'interrupt':
        agree('moreUsed', driver.moreUsed(), step.ret === 'HANDLED');
        break;
      case 'get_buf':
        this.get(step);
        break;
      case 'detach_unused_buf':
        this.detach(step);
        break;
      case 'device_push':
        this.pushed++;
        this.used.push(step);
        this.deviceWrites(step.writes);
        break;
      case 'device_enable_notify':
      case 'device_disable_notify':
      case 'device_raw':
        this.deviceWrites(step.writes);
        break;
      case 'device_need_interrupt': {
        const wanted = interruptWanted(this.ours, this.eventIdx, this.ours.usedIdx, this.pushed);
        this.pushed = 0;
        // With callbacks disabled their driver leaves an event that may still come true; ours must not.
        agree('interrupt wanted', wanted, this.callbacks && step.ret);
        break;
      }
      case 'device_pop':
        // What their device found is compared by what it reads from: see compare().
        return;
      case 'cycles':
        this.cycles(step);
        break;
    }
  }

  private add(step: StepOf<'add'>): void {
    const { driver, ours } = this;
    const segments = (ranges: Range[]) => ranges.map(([address, length]) => ({ address, length }));
    const act = () => driver.add(segments(step.out), segments(step.in), step.token);
    if (step.ret === -5) {
      this.refuses('add', act);
      return;
    }
    agree('add', act(), step.ret === 0);
    if (step.ret !== 0) return;
    const position = (ours.availIdx - 1) & 0xffff;
    const head = ours.availRing(position);
    for (const other of this.inFlight.values())
      if (other.ours === head) throw new Mismatch(`head ${head} is given to two buffers in flight`);
    this.inFlight.set(step.id as number, {
      token: step.token,
      ours: head,
      position,
      writable: bytesIn(step.in),
    });
  }

  private get(step: StepOf<'get_buf'>): void {
    if (step.broken) {
      this.refuses('getBuf', () => this.driver.getBuf());
      return;
    }
    const before = this.driver.tableBytes;
    const completion = this.driver.getBuf();
    if (step.ret_token === null) {
      agree('getBuf', completion, undefined);
      return;
    }
    const id = this.used.shift()?.id ?? Number.NaN;
    const buffer = this.inFlight.get(id);
    if (!buffer) throw new Mismatch(`their device used nothing that could be token ${step.ret_token}`);
    const { writable } = buffer;
    // Their driver believes a length above the writable part; ours cuts it.
    const length = Math.min(step.len as number, writable);
    agree('getBuf', completion, { token: step.ret_token, length });
    agree('table freed', this.driver.tableBytes < before, step.indirect_freed !== undefined);
    this.inFlight.delete(id);
  }

  private detach(step: StepOf<'detach_unused_buf'>): void {
    const token = this.driver.detachUnused();
    if (step.ret_token === null) {
      agree('detachUnused', token, undefined);
      return;
    }
    // The order is the driver's choice. A token may be in use twice: any such buffer will do.
    const [head] = [...this.inFlight].find(([, buffer]) => buffer.token === token) ?? [];
    if (head === undefined)
      throw new Mismatch(`detachUnused: ${token} is not the token of a buffer in flight`);
    this.inFlight.delete(head);
  }

  private refuses(what: string, act: () => unknown): void {
    let error: unknown;
    try {
      act();
    } catch (thrown) {
      error = thrown;
    }
    if (!(error instanceof VringError)) throw new Mismatch(`${what} on a broken queue: no VringError`);
    agree(`${what}: code`, error.code, 'EPROTO');
    agree('broken', this.driver.broken, true);
  }

  private deviceWrites(writes: Write[]): void {
    for (const write of writes) {
      const [area, offset] = write;
      if (area !== 'used') throw new Mismatch(`their device writes to ${area}`);
      const data = bytesOf(write[2]);
      if (isElement(write)) {
        const view = new DataView(data.buffer);
        view.setUint32(0, this.rename(view.getUint32(0, true)), true);
      }
      new Uint8Array(this.ours.memory.buffer).set(data, this.ours.areas.device + offset);
    }
    this.deviceBytes = this.ours.deviceBytes;
  }

  /** Our id for their id. One that is bad in their ring is bad in ours. */
  private rename(id: number): number {
    const known = this.inFlight.get(id);
    if (known) return known.ours;
    const heads = new Set([...this.inFlight.values()].map(({ ours }) => ours));
    let bad = id;
    while (heads.has(bad)) bad++;
    return bad;
  }

  private cycles({ n }: StepOf<'cycles'>): void {
    const { driver, ours } = this;
    const out = [{ address: 65536, length: 64 }];
    ours.used = ours.usedIdx;
    for (let i = 0; i < n; i++) {
      agree('add', driver.add(out, [], 1), true);
      driver.kickPrepare();
      ours.use(ours.availRing((ours.availIdx - 1) & 0xffff), 0);
      const { token, length } = driver.getBuf() ?? {};
      if (token !== 1 || length !== 0) throw new Mismatch(`cycle ${i}: got ${token}, ${length}`);
    }
    agree('used.idx after the cycles', ours.usedIdx, this.theirs.usedIdx);
    ours.availEvent = this.theirs.availEvent;
    ours.usedFlags = this.theirs.usedFlags;
    this.deviceBytes = ours.deviceBytes;
  }

  /** The bytes that must agree, up to renaming of heads and table addresses. */
  private compare(step: Step): void {
    const { driver, ours, theirs } = this;
    agree('numFree', driver.numFree, step.num_free);
    agree('avail.idx', ours.availIdx, theirs.availIdx);
    // 2.7.7.1: with EVENT_IDX the driver must leave flags 0.
    agree('avail.flags', ours.availFlags, this.eventIdx ? 0 : theirs.availFlags & 1);
    if (this.eventIdx && this.callbacks) agree('used_event', ours.usedEvent, theirs.usedEvent);
    for (const [head, buffer] of this.inFlight) {
      // A slot is written anew once the ring has gone round; then it belongs to another buffer.
      if (((ours.availIdx - buffer.position) & 0xffff) <= ours.size)
        agree(`avail.ring of token ${buffer.token}`, ours.availRing(buffer.position), buffer.ours);
      agree(`chain of token ${buffer.token}`, shape(ours, buffer.ours), shape(theirs, head));
    }
    agree('our used area', ours.deviceBytes, this.deviceBytes);
  }
}

/** What a device finds at `head`, without the numbers that are the driver's choice. */
function shape(ring: SplitRing, head: number) {
  const descriptor = ({ addr, len, flags }: Descriptor) => ({ addr, len, flags });
  const { flags, len } = ring.desc(head);
  return {
    table: flags & INDIRECT ? { flags, len } : null,
    elements: ring.elements(head).map(descriptor),
  };
}

export async function replaySplitDriver(trace: Trace, load: Load): Promise<void> {
  const replay = new DriverReplay(trace, await load({ size: 2 ** 21 }));
  for (const [i, step] of trace.steps.entries()) inStep(i, step.op, () => replay.step(step));
}

// ---- Our device, their driver ----

const ARENA = 2 ** 20;
/** A longer range of guest memory is made of so many bytes again and again: nobody looks into the buffers. */
const CHUNK = 2 ** 22;
const MEMORY_MAX = 2 ** 28;
/** Guest address of the ring: far above whatever a trace uses, and more than 32 bits. */
const RING_GUEST = 0xffff_0000_0000_0000n;

interface Placed {
  guest: bigint;
  length: number;
  local: number;
}

/** Local places for all the guest memory that a trace speaks of, as few and as small as possible. */
function place(trace: Trace, from: number): { regions: Placed[]; end: number } {
  const ranges: { start: bigint; end: bigint }[] = [];
  const note = ([address, length]: Range) =>
    ranges.push({ start: BigInt(address), end: BigInt(address) + BigInt(length) });
  for (const step of trace.steps) {
    if (step.op === 'add') {
      for (const range of [...step.out, ...step.in]) note(range);
      if (step.indirect) note([step.indirect.addr, step.indirect.bytes.length / 2]);
    } else if (step.op === 'cycles') note([65536, 64]);
  }
  ranges.sort((a, b) => (a.start < b.start ? -1 : a.start > b.start ? 1 : 0));
  const merged: typeof ranges = [];
  for (const { start, end } of ranges) {
    const last = merged.at(-1);
    if (!last || start > last.end) merged.push({ start, end });
    else if (end > last.end) last.end = end;
  }
  const regions: Placed[] = [];
  let next = from;
  for (const { start, end } of merged) {
    // As aligned as it is in the guest.
    const local = Math.ceil(next / 16) * 16 + Number(start & 15n);
    let guest = start;
    for (; guest < end; guest += BigInt(CHUNK)) {
      const length = Math.min(Number(end - guest), CHUNK);
      regions.push({ guest, length, local });
      next = Math.max(next, local + length);
    }
  }
  return { regions, end: next };
}

class DeviceReplay {
  private readonly ours: SplitRing;
  private readonly theirs: SplitRing;
  private readonly eventIdx: boolean;
  private readonly device: DeviceQueue;
  /** By head: the writable length. */
  private readonly inFlight = new Map<number, number>();
  private popped = 0;
  /** The used ring without avail_event: what our device must have written. */
  private expected: Uint8Array;

  constructor(
    trace: Trace,
    host: Host,
    ringAt: number,
    private readonly regions: Placed[],
  ) {
    const features = featureBits(trace);
    const { num } = trace;
    const areas = {
      descriptor: ringAt,
      driver: ringAt + THEIRS.driver,
      device: ringAt + THEIRS.device,
    };
    this.eventIdx = features.includes(Feature.EVENT_IDX);
    this.ours = new SplitRing(host, areas, num);
    this.theirs = theirRing(trace);
    this.expected = new Uint8Array(4 + 8 * num);
    this.device = host.deviceQueue({
      ring: 'split',
      size: num,
      features,
      areas: {
        descriptor: RING_GUEST,
        driver: RING_GUEST + BigInt(THEIRS.driver),
        device: RING_GUEST + BigInt(THEIRS.device),
      },
      regions: [{ guest: RING_GUEST, length: THEIR_TABLES, local: ringAt }, ...regions],
    });
  }

  /** Local pieces of a range. */
  private pieces([address, length]: Range): { address: number; length: number }[] {
    const pieces: { address: number; length: number }[] = [];
    let guest = BigInt(address);
    for (let left = length; left > 0; ) {
      const region = this.regions.find((r) => guest >= r.guest && guest < r.guest + BigInt(r.length));
      if (!region) throw new Error(`guest address ${guest} has no place`);
      const offset = Number(guest - region.guest);
      const here = Math.min(left, region.length - offset);
      pieces.push({ address: region.local + offset, length: here });
      guest += BigInt(here);
      left -= here;
    }
    return pieces;
  }

  step(step: Step): void {
    follow(this.theirs, step);
    if (step.op !== 'cycles') this.mirror(step);
    this.operate(step);
    this.compare();
  }

  /** Their driver's writes. */
  private mirror(step: Step): void {
    const memory = new Uint8Array(this.ours.memory.buffer);
    if (step.desc !== undefined) memory.set(bytesOf(step.desc), this.ours.areas.descriptor);
    if (step.op === 'add' && step.indirect)
      memory.set(bytesOf(step.indirect.bytes), this.pieces([step.indirect.addr, 1])[0].address);
    if (step.avail !== undefined) memory.set(bytesOf(step.avail), this.ours.areas.driver);
  }

  private operate(step: Step): void {
    const { device, ours } = this;
    switch (step.op) {
      case 'device_pop':
        this.pop(step);
        break;
      case 'device_push':
        this.push(step);
        break;
      case 'device_need_interrupt':
        agree('shouldInterrupt', device.shouldInterrupt(), step.ret);
        break;
      case 'device_enable_notify':
        this.expect(step.writes);
        agree('enableNotifications', device.enableNotifications(), ours.availIdx === this.popped);
        if (this.eventIdx) {
          agree('avail_event', ours.availEvent, this.popped);
          agree('avail_event of the trace', ours.availEvent, this.theirs.availEvent);
        }
        return;
      case 'device_disable_notify':
        this.expect(step.writes);
        device.disableNotifications();
        break;
      case 'device_raw':
        // Not something that our device would do: it happens to the memory.
        for (const [, offset, hex] of step.writes)
          new Uint8Array(ours.memory.buffer).set(bytesOf(hex), ours.areas.device + offset);
        this.expect(step.writes);
        break;
      case 'cycles':
        this.cycles(step);
        break;
      default:
        return; // the driver's own affair
    }
  }

  private pop({ ret }: StepOf<'device_pop'>): void {
    const element = this.device.pop();
    if (ret === null) {
      agree('pop', element, undefined);
      return;
    }
    const pieces = (ranges: Range[]) => ranges.flatMap((range) => this.pieces(range));
    agree('pop', element, { id: ret.id, out: pieces(ret.out), in: pieces(ret.in) });
    this.inFlight.set(ret.id, bytesIn(ret.in));
    this.popped = (this.popped + 1) & 0xffff;
  }

  private push(step: StepOf<'device_push'>): void {
    const { id, len } = step;
    const writable = this.inFlight.get(id);
    if (writable === undefined) {
      // Their device sends an id that it never took; ours cannot be made to.
      let code: string | undefined;
      try {
        this.device.push({ id }, len);
      } catch (error) {
        if (error instanceof VringError) code = error.code;
      }
      agree(`push of id ${id}, which is not in flight`, code, 'EINVAL');
      return;
    }
    // Their device reports more than it may have written; ours cannot be made to.
    const written = Math.min(len, writable);
    this.device.push({ id }, written);
    this.inFlight.delete(id);
    this.expect(step.writes, written);
  }

  /** Notes what the used area must be after their device's `writes`, an element's length being `written`. */
  private expect(writes: Write[], written?: number): void {
    for (const write of writes) {
      const [area, offset, hex] = write;
      if (area !== 'used') throw new Mismatch(`their device writes to ${area}`);
      const data = bytesOf(hex);
      if (isElement(write) && written !== undefined) new DataView(data.buffer).setUint32(4, written, true);
      if (offset + data.length <= this.expected.length) this.expected.set(data, offset);
    }
  }

  private cycles({ n }: StepOf<'cycles'>): void {
    const { device, ours, theirs } = this;
    const head = theirs.availRing(0);
    ours.setDesc(head, theirs.desc(head));
    ours.available = ours.availIdx;
    for (let i = 0; i < n; i++) {
      ours.makeAvailable(head);
      const element = device.pop();
      if (element?.id !== head) throw new Mismatch(`cycle ${i}: popped ${element?.id}`);
      device.push(element, 0);
      // Their driver asks for an interrupt at the next buffer as it takes this one.
      if (this.eventIdx) ours.usedEvent = ours.availIdx;
    }
    this.popped = (this.popped + n) & 0xffff;
    agree('avail.idx after the cycles', ours.availIdx, theirs.availIdx);
    new Uint8Array(ours.memory.buffer).set(theirs.descriptorBytes, ours.areas.descriptor);
    new Uint8Array(ours.memory.buffer).set(theirs.driverBytes, ours.areas.driver);
    this.expected = theirs.deviceBytes.slice(0, this.expected.length);
  }

  private compare(): void {
    const { device, ours, theirs } = this;
    agree('used area', ours.deviceBytes.slice(0, this.expected.length), this.expected);
    agree('in flight', device.inFlight, this.inFlight.size);
    agree('fault', device.fault, undefined);
    // 2.7.5.1: a device must not write to the descriptor table; the available ring is not its own either.
    agree('descriptor table', ours.descriptorBytes, theirs.descriptorBytes);
    agree('available ring', ours.driverBytes, theirs.driverBytes);
  }
}

export async function replaySplitDevice(trace: Trace, load: Load): Promise<void> {
  const ringAt = 0x1000;
  const { regions, end } = place(trace, ringAt + THEIR_TABLES);
  const base = Math.ceil(end / 65536) * 65536;
  if (base > MEMORY_MAX) throw new Error(`the trace needs ${base} bytes of guest memory`);
  const memory = new WebAssembly.Memory({ initial: (base + ARENA) / 65536 });
  const host = await load({ memory, base, size: ARENA });
  const replay = new DeviceReplay(trace, host, ringAt, regions);
  for (const [i, step] of trace.steps.entries()) inStep(i, step.op, () => replay.step(step));
}
