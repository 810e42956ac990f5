import { type DeviceQueue, type DriverQueue, Feature, type Host } from '../../src/index.js';
import type { Load } from '../support/engines.js';
import { type Descriptor, INDIRECT, SplitRing } from '../support/split-ring.js';
import { GuestMemory } from './guest-memory.js';
import { agree, inStep, Mismatch, refuses } from './mismatch.js';
import {
  bytesIn,
  bytesOf,
  featureBits,
  type Range,
  type Step,
  type StepOf,
  segmentsOf,
  TABLES,
  type Trace,
  tablesEnd,
  type Write,
} from './trace.js';

// Where the traced ring lies in the replayer's own copy of it. Tables lie where the trace put them, above.
const THEIRS = { descriptor: 0, driver: 0x80000, device: 0xa0000 };

const AREAS = { desc: 'descriptor', avail: 'driver', used: 'device' } as const;

/** The traced ring and its indirect tables as they were after the last step taken. */
function theirRing(trace: Trace): SplitRing {
  return new SplitRing({ buffer: new ArrayBuffer(tablesEnd(trace)) }, THEIRS, trace.num);
}

function follow(theirs: SplitRing, step: Step): void {
  const memory = new Uint8Array(theirs.memory.buffer);
  for (const [name, area] of Object.entries(AREAS) as [keyof typeof AREAS, keyof typeof THEIRS][]) {
    const dump = step[name];
    if (dump !== undefined) memory.set(bytesOf(dump), theirs.areas[area]);
  }
  if (step.op === 'add' && step.indirect) memory.set(bytesOf(step.indirect.bytes), step.indirect.addr);
}

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
        return this.add(step);
      case 'kick_prepare':
        return agree('kickPrepare', driver.kickPrepare(), step.ret);
      case 'disable_cb':
        this.callbacks = false;
        return driver.disableCallbacks();
      case 'enable_cb':
        this.callbacks = true;
        return agree('enableCallbacks', driver.enableCallbacks(), step.ret);
      case 'enable_cb_prepare':
        this.callbacks = true;
        this.opaque = driver.enableCallbacksPrepare();
        return;
      case 'poll':
        return agree('poll', driver.poll(this.opaque), step.ret);
      case 'enable_cb_delayed':
        this.callbacks = true;
        return agree('enableCallbacksDelayed', driver.enableCallbacksDelayed(), step.ret);
      case 'interrupt':
        return agree('moreUsed', driver.moreUsed(), step.ret === 'HANDLED');
      case 'get_buf':
        return this.get(step);
      case 'detach_unused_buf':
        return this.detach(step);
      case 'device_push':
        this.pushed++;
        this.used.push(step);
        return this.deviceWrites(step.writes);
      case 'device_enable_notify':
      case 'device_disable_notify':
      case 'device_raw':
        return this.deviceWrites(step.writes);
      case 'device_need_interrupt': {
        const wanted = interruptWanted(this.ours, this.eventIdx, this.ours.usedIdx, this.pushed);
        this.pushed = 0;
        // With callbacks disabled their driver leaves an event that may still come true; ours must not.
        return agree('interrupt wanted', wanted, this.callbacks && step.ret);
      }
      case 'device_pop':
        // What their device found is compared by what it reads from: see compare().
        return;
      case 'cycles':
        return this.cycles(step);
    }
  }

  private add(step: StepOf<'add'>): void {
    const { driver, ours } = this;
    const act = () => driver.add(segmentsOf(step.out), segmentsOf(step.in), step.token);
    if (step.ret === -5) return this.refuses('add', act);
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
    if (step.broken) return this.refuses('getBuf', () => this.driver.getBuf());
    const before = this.driver.tableBytes;
    const completion = this.driver.getBuf();
    if (step.ret_token === null) return agree('getBuf', completion, undefined);
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
    if (step.ret_token === null) return agree('detachUnused', token, undefined);
    // The order is the driver's choice. A token may be in use twice: any such buffer will do.
    const [head] = [...this.inFlight].find(([, buffer]) => buffer.token === token) ?? [];
    if (head === undefined)
      throw new Mismatch(`detachUnused: ${token} is not the token of a buffer in flight`);
    this.inFlight.delete(head);
  }

  private refuses(what: string, act: () => unknown): void {
    refuses(`${what} on a broken queue`, act, 'EPROTO');
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

/** Guest address of the ring: far above whatever a trace uses, and more than 32 bits. */
const RING_GUEST = 0xffff_0000_0000_0000n;

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
    private readonly guest: GuestMemory,
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
      regions: [{ guest: RING_GUEST, length: TABLES.start, local: ringAt }, ...guest.regions],
    });
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
      memory.set(bytesOf(step.indirect.bytes), this.guest.pieces([step.indirect.addr, 1])[0].address);
    if (step.avail !== undefined) memory.set(bytesOf(step.avail), this.ours.areas.driver);
  }

  private operate(step: Step): void {
    const { device, ours } = this;
    switch (step.op) {
      case 'device_pop':
        return this.pop(step);
      case 'device_push':
        return this.push(step);
      case 'device_need_interrupt':
        return agree('shouldInterrupt', device.shouldInterrupt(), step.ret);
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
        return device.disableNotifications();
      case 'device_raw':
        // Not something that our device would do: it happens to the memory.
        for (const [, offset, hex] of step.writes)
          new Uint8Array(ours.memory.buffer).set(bytesOf(hex), ours.areas.device + offset);
        return this.expect(step.writes);
      case 'cycles':
        return this.cycles(step);
      default:
        return; // the driver's own affair
    }
  }

  private pop({ ret }: StepOf<'device_pop'>): void {
    const element = this.device.pop();
    if (ret === null) return agree('pop', element, undefined);
    const pieces = (ranges: Range[]) => ranges.flatMap((range) => this.guest.pieces(range));
    agree('pop', element, { id: ret.id, out: pieces(ret.out), in: pieces(ret.in) });
    this.inFlight.set(ret.id, bytesIn(ret.in));
    this.popped = (this.popped + 1) & 0xffff;
  }

  private push(step: StepOf<'device_push'>): void {
    const { id, len } = step;
    const writable = this.inFlight.get(id);
    if (writable === undefined) {
      // Their device sends an id that it never took; ours cannot be made to.
      return refuses(
        `push of id ${id}, which is not in flight`,
        () => this.device.push({ id }, len),
        'EINVAL',
      );
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
  const guest = new GuestMemory(trace, ringAt + TABLES.start);
  const replay = new DeviceReplay(trace, await guest.load(load), ringAt, guest);
  for (const [i, step] of trace.steps.entries()) inStep(i, step.op, () => replay.step(step));
}
