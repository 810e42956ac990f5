import { type DeviceQueue, type DriverQueue, Feature, type Host } from '../../src/index.js';
import type { Load } from '../support/engines.js';
import {
  advance,
  DESC,
  DISABLE,
  ENABLE,
  INDIRECT,
  type PackedDescriptor,
  PackedRing,
  WRAP,
  WRITE,
} from '../support/packed-ring.js';
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
const THEIRS = { descriptor: 0, driver: 0x80000, device: 0x80004 };

const AREAS = { desc: 'descriptor', driver: 'driver', device: 'device' } as const;
type Area = keyof typeof AREAS;

/** The traced ring and its indirect tables as they were after the last step taken. */
function theirRing(trace: Trace): PackedRing {
  return new PackedRing({ buffer: new ArrayBuffer(tablesEnd(trace)) }, THEIRS, trace.num);
}

function follow(theirs: PackedRing, step: Step): void {
  const memory = new Uint8Array(theirs.memory.buffer);
  for (const area of Object.keys(AREAS) as Area[]) {
    const dump = step[area];
    if (dump !== undefined) memory.set(bytesOf(dump), theirs.areas[AREAS[area]]);
  }
  if (step.op === 'add' && step.indirect) memory.set(bytesOf(step.indirect.bytes), step.indirect.addr);
}

/** Stores what their device stored, a used descriptor with the id and the length of ours. */
function store(ring: PackedRing, writes: Write[], own: { id?: number | undefined; len?: number } = {}): void {
  for (const [area, offset, hex] of writes) {
    if (area === 'driver') throw new Mismatch(`their device writes to ${area}`);
    const data = bytesOf(hex);
    const view = new DataView(data.buffer);
    if (area === 'desc' && offset % 16 === 8 && data.length === 6) {
      if (own.len !== undefined) view.setUint32(0, own.len, true);
      if (own.id !== undefined) view.setUint16(4, own.id, true);
    } else if (area === 'desc' && own.len === 0)
      // A used descriptor that says that nothing was written.
      view.setUint16(0, view.getUint16(0, true) & ~WRITE, true);
    new Uint8Array(ring.memory.buffer).set(data, ring.areas[AREAS[area as Area]] + offset);
  }
}

/** 2.8.10: what a device does that used the `slots` slots before `position`. */
function interruptWanted(ring: PackedRing, eventIdx: boolean, position: number, slots: number): boolean {
  if (slots === 0) return false;
  const { offWrap, flags } = ring.driverEvent;
  if (flags === DISABLE) return false;
  if (flags !== DESC || !eventIdx) return true;
  for (let n = 0, at = position; n < slots; n++) {
    at = advance(at, ring.size - 1, ring.size) ^ WRAP; // one back
    if (at === offWrap) return true;
  }
  return false;
}

/** Slots of the ring that the buffer takes. */
const slotsOf = ({ out, in: in_, indirect }: StepOf<'add'>): number =>
  indirect ? 1 : out.length + in_.length;

// ---- Our driver, their device ----

interface InFlight {
  token: number;
  /** Id in our ring; in theirs it is the key. */
  ours: number;
  writable: number;
}

class DriverReplay {
  private readonly driver: DriverQueue;
  private readonly ours: PackedRing;
  private readonly theirs: PackedRing;
  private readonly eventIdx: boolean;
  /** By their id. */
  private readonly inFlight = new Map<number, InFlight>();
  /** What their device has used and our driver not yet got, in order. */
  private readonly used: { id: number }[] = [];
  private callbacks: boolean;
  /** Their driver had an interrupt and knows that no other will come: it leaves the flags as they are. */
  private hinted = false;
  private available = WRAP;
  private usedAt = WRAP;
  private pushed = 0;
  private opaque = 0;
  /** Our ring and the device area as they must be: only the slots made available are the driver's to write. */
  private descriptors: Uint8Array;
  private deviceBytes: Uint8Array;

  constructor(trace: Trace, host: Host) {
    const features = featureBits(trace);
    this.driver = host.driverQueue({ ring: 'packed', size: trace.num, features });
    this.eventIdx = features.includes(Feature.EVENT_IDX);
    this.callbacks = trace.callback;
    this.ours = new PackedRing(host, this.driver.areas, trace.num);
    this.theirs = theirRing(trace);
    this.descriptors = this.ours.descriptorBytes;
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
      case 'device_pop': // what their device finds is compared slot by slot: see add()
        break;
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
        this.enabling();
        agree('enableCallbacks', driver.enableCallbacks(), step.ret);
        break;
      case 'enable_cb_prepare':
        this.enabling();
        this.opaque = driver.enableCallbacksPrepare();
        break;
      case 'poll':
        agree('poll', driver.poll(this.opaque), step.ret);
        break;
      case 'enable_cb_delayed':
        this.enabling();
        agree('enableCallbacksDelayed', driver.enableCallbacksDelayed(), step.ret);
        break;
      case 'interrupt':
        agree('moreUsed', driver.moreUsed(), step.ret === 'HANDLED');
        if (step.ret === 'HANDLED' && this.eventIdx) this.hinted = true;
        break;
      case 'get_buf':
        this.get(step);
        break;
      case 'detach_unused_buf':
        this.detach(step);
        break;
      case 'device_push':
        this.used.push(step);
        this.pushed += step.ndesc;
        this.usedAt = advance(this.usedAt, step.ndesc, this.ours.size);
        this.deviceWrites(step.writes, this.rename(step.id));
        break;
      case 'device_enable_notify':
      case 'device_disable_notify':
      case 'device_raw':
        this.deviceWrites(step.writes);
        break;
      case 'device_need_interrupt': {
        const wanted = interruptWanted(this.ours, this.eventIdx, this.usedAt, this.pushed);
        this.pushed = 0;
        // Where their driver left the flags as they were an event may still come true; ours has disabled it.
        agree('interrupt wanted', wanted, this.callbacks && step.ret);
        break;
      }
      case 'cycles':
        this.cycles(step);
        break;
    }
  }

  private enabling(): void {
    this.callbacks = true;
    this.hinted = false;
  }

  private add(step: StepOf<'add'>): void {
    const act = () => this.driver.add(segmentsOf(step.out), segmentsOf(step.in), step.token);
    if (step.ret === -5) {
      this.refuses('add', act);
      return;
    }
    agree('add', act(), step.ret === 0);
    if (step.ret !== 0) return;
    const { ours, theirs } = this;
    const slots = slotsOf(step);
    let last = 0;
    for (let i = 0; i < slots; i++) {
      last = this.available & 0x7fff;
      agree(`slot ${last}`, shape(ours, last), shape(theirs, last));
      const bytes = ours.descriptorBytes.subarray(16 * last, 16 * last + 16);
      this.descriptors.set(bytes, 16 * last);
      this.available = advance(this.available, 1, ours.size);
    }
    const { id } = ours.desc(last);
    if (id >= ours.size) throw new Mismatch(`id ${id} is not below the queue size`);
    for (const other of this.inFlight.values())
      if (other.ours === id) throw new Mismatch(`id ${id} is given to two buffers in flight`);
    this.inFlight.set(step.id as number, { token: step.token, ours: id, writable: bytesIn(step.in) });
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
    // Their driver believes a length above the writable part; ours cuts it.
    const length = Math.min(step.len as number, buffer.writable);
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
    const [id] = [...this.inFlight].find(([, buffer]) => buffer.token === token) ?? [];
    if (id === undefined) throw new Mismatch(`detachUnused: ${token} is not the token of a buffer in flight`);
    this.inFlight.delete(id);
  }

  private refuses(what: string, act: () => unknown): void {
    refuses(`${what} on a broken queue`, act, 'EPROTO');
    agree('broken', this.driver.broken, true);
  }

  private deviceWrites(writes: Write[], id?: number): void {
    store(this.ours, writes, { id });
    this.noteBytes();
  }

  private noteBytes(): void {
    this.descriptors = this.ours.descriptorBytes;
    this.deviceBytes = this.ours.deviceBytes;
  }

  /** Our id for their id. One that is bad in their ring is bad in ours. */
  private rename(id: number): number {
    const known = this.inFlight.get(id);
    if (known) return known.ours;
    const ids = new Set([...this.inFlight.values()].map(({ ours }) => ours));
    let bad = id;
    while (ids.has(bad)) bad++;
    return bad;
  }

  private cycles({ n }: StepOf<'cycles'>): void {
    const { driver, ours } = this;
    const out = [{ address: 65536, length: 64 }];
    ours.used = this.usedAt;
    for (let i = 0; i < n; i++) {
      agree('add', driver.add(out, [], 1), true);
      driver.kickPrepare();
      ours.use(ours.desc(this.available & 0x7fff).id, 0);
      const { token, length } = driver.getBuf() ?? {};
      if (token !== 1 || length !== 0) throw new Mismatch(`cycle ${i}: got ${token}, ${length}`);
      this.available = advance(this.available, 1, ours.size);
    }
    this.usedAt = ours.used;
    ours.deviceEvent = this.theirs.deviceEvent;
    this.noteBytes();
  }

  private compare(step: Step): void {
    const { driver, ours, theirs, callbacks } = this;
    agree('numFree', driver.numFree, step.num_free);
    const event = ours.driverEvent;
    const { flags, offWrap } = theirs.driverEvent;
    if (!callbacks && this.hinted) agree('driver flags', event.flags, DISABLE);
    else agree('driver flags', event.flags, flags);
    if (event.flags === DESC && flags === DESC) agree('off_wrap', event.offWrap, offWrap);
    agree('our ring', ours.descriptorBytes, this.descriptors);
    agree('our device area', ours.deviceBytes, this.deviceBytes);
  }
}

/** A slot made available, without the numbers that are the driver's choice. */
function shape(ring: PackedRing, slot: number) {
  const desc = ring.desc(slot);
  const { addr, len, flags } = desc;
  if (!(flags & INDIRECT)) return { addr, len, flags };
  const element = (d: PackedDescriptor) => ({ addr: d.addr, len: d.len, flags: d.flags });
  return { len, flags, table: ring.table(desc).map(element) };
}

export async function replayPackedDriver(trace: Trace, load: Load): Promise<void> {
  const replay = new DriverReplay(trace, await load({ size: 2 ** 21 }));
  trace.steps.forEach((step, i) => {
    inStep(i, step.op, () => replay.step(step));
  });
}

// ---- Our device, their driver ----

/** Guest address of the ring: far above whatever a trace uses, and more than 32 bits. */
const RING_GUEST = 0xffff_0000_0000_0000n;

class DeviceReplay {
  private readonly ours: PackedRing;
  private readonly theirs: PackedRing;
  private readonly eventIdx: boolean;
  private readonly device: DeviceQueue;
  /** By id: the writable length. */
  private readonly inFlight = new Map<number, number>();
  private popped = WRAP;
  /** What our ring must be: their driver's descriptors, and on top of them what our device used. */
  private readonly expected: PackedRing;
  /** Their ring before the step: what their driver wrote is what differs. */
  private before: Uint8Array;
  private notifications: 'enabled' | 'disabled' | 'raw' = 'enabled';

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
    this.ours = new PackedRing(host, areas, num);
    this.theirs = theirRing(trace);
    this.expected = theirRing(trace);
    this.before = this.theirs.descriptorBytes;
    this.device = host.deviceQueue({
      ring: 'packed',
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
    if (!step.op.startsWith('device_') && step.op !== 'cycles') this.mirror(step);
    this.operate(step);
    this.compare();
    this.before = this.theirs.descriptorBytes;
  }

  /** Their driver's writes. */
  private mirror(step: Step): void {
    const { ours, theirs, expected } = this;
    const now = theirs.descriptorBytes;
    for (let slot = 0; slot < theirs.size; slot++) {
      const bytes = [this.before, now].map((ring) => ring.subarray(16 * slot, 16 * slot + 16));
      if (Buffer.compare(bytes[0], bytes[1]) === 0) continue;
      for (const ring of [ours, expected]) ring.setDesc(slot, theirs.desc(slot));
    }
    for (const ring of [ours, expected]) ring.driverEvent = theirs.driverEvent;
    if (step.op === 'add' && step.indirect)
      new Uint8Array(ours.memory.buffer).set(
        bytesOf(step.indirect.bytes),
        this.guest.pieces([step.indirect.addr, 1])[0].address,
      );
  }

  private operate(step: Step): void {
    const { device, ours, expected } = this;
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
      case 'device_enable_notify': {
        agree('enableNotifications', device.enableNotifications(), !ours.isAvailable(this.popped));
        this.notifications = 'enabled';
        if (!this.eventIdx) break;
        agree('off_wrap', ours.deviceEvent.offWrap, this.popped);
        agree('off_wrap of the trace', this.theirs.deviceEvent.offWrap, this.popped);
        break;
      }
      case 'device_disable_notify':
        device.disableNotifications();
        this.notifications = 'disabled';
        break;
      case 'device_raw':
        // Not something that our device would do: it happens to the memory.
        for (const ring of [ours, expected]) store(ring, step.writes);
        this.notifications = 'raw';
        break;
      case 'cycles':
        this.cycles(step);
        break;
      default: // the driver's own affair
    }
  }

  private pop({ ret }: StepOf<'device_pop'>): void {
    const element = this.device.pop();
    if (ret === null) {
      agree('pop', element, undefined);
      return;
    }
    const pieces = (ranges: Range[]) => ranges.flatMap((range) => this.guest.pieces(range));
    agree('pop', element, { id: ret.id, out: pieces(ret.out), in: pieces(ret.in) });
    this.inFlight.set(ret.id, bytesIn(ret.in));
    this.popped = advance(this.popped, ret.ndesc, this.ours.size);
  }

  private push(step: StepOf<'device_push'>): void {
    const { id, len } = step;
    const writable = this.inFlight.get(id);
    if (writable === undefined) {
      // Their device sends an id that it never took; ours cannot be made to.
      refuses(`push of id ${id}, which is not in flight`, () => this.device.push({ id }, len), 'EINVAL');
      return;
    }
    // Their device reports more than it may have written; ours cannot be made to.
    const written = Math.min(len, writable);
    this.device.push({ id }, written);
    this.inFlight.delete(id);
    store(this.expected, step.writes, written === len ? {} : { len: written });
  }

  private cycles({ n }: StepOf<'cycles'>): void {
    const { device, ours, theirs, expected } = this;
    for (let i = 0; i < n; i++) {
      ours.available = this.popped;
      ours.offer([{ addr: 65536, len: 64 }], 0);
      const element = device.pop();
      if (element?.id !== 0) throw new Mismatch(`cycle ${i}: popped ${element?.id}`);
      device.push(element, 0);
      this.popped = advance(this.popped, 1, ours.size);
    }
    for (let slot = 0; slot < ours.size; slot++)
      for (const ring of [ours, expected]) ring.setDesc(slot, theirs.desc(slot));
    for (const ring of [ours, expected]) ring.driverEvent = theirs.driverEvent;
  }

  private compare(): void {
    const { device, ours, expected } = this;
    agree('ring', ours.descriptorBytes, expected.descriptorBytes);
    agree('driver area', ours.driverBytes, expected.driverBytes);
    agree('in flight', device.inFlight, this.inFlight.size);
    agree('fault', device.fault, undefined);
    // Enabled may be either of two values, which the trace's device and ours choose differently.
    const { flags, offWrap } = ours.deviceEvent;
    if (this.notifications === 'disabled') agree('device flags', flags, DISABLE);
    else if (this.notifications === 'enabled') {
      if (flags !== ENABLE && !(this.eventIdx && flags === DESC))
        throw new Mismatch(`device flags: ours ${flags}, notifications are enabled`);
      if (flags === DESC) agree('off_wrap', offWrap, this.popped);
    }
  }
}

export async function replayPackedDevice(trace: Trace, load: Load): Promise<void> {
  const ringAt = 0x1000;
  const guest = new GuestMemory(trace, ringAt + TABLES.start);
  const replay = new DeviceReplay(trace, await guest.load(load), ringAt, guest);
  trace.steps.forEach((step, i) => {
    inStep(i, step.op, () => replay.step(step));
  });
}
