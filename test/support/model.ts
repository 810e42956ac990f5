/**
 * A split virtqueue in a few plain lists, written from the specification and from the choices that
 * src/engine/engine.ts fixes where the specification leaves one. No ring, no memory: buffers move from
 * list to list, indices only grow, and every operation says what a real queue must return.
 */

export interface Range {
  address: number;
  length: number;
}

/** A buffer as the test made it. Addresses are what the driver writes; the device sees them as pieces. */
export interface Buffer {
  token: number;
  out: Range[];
  in: Range[];
  /** Where the test keeps its data. */
  slot: number;
}

export const bytesOf = (ranges: Range[]): number => ranges.reduce((sum, { length }) => sum + length, 0);

export interface ModelOptions {
  size: number;
  eventIdx: boolean;
  indirect: boolean;
  /** Granules of 16 bytes for indirect tables. */
  granules: number;
  /** Local pieces of a range of guest memory. */
  translate: (range: Range) => Range[];
}

/** In place of a result: the code of the VringError that is thrown. */
export class Refused {
  constructor(readonly code: string) {}
}

export const INVALID = new Refused('EINVAL');
export const NO_ROOM = new Refused('ENOSPC');

interface Placed {
  buffer: Buffer;
  /** Descriptors of the queue's own table; the first is the head. */
  chain: number[];
  table: { start: number; count: number } | undefined;
}

interface Popped extends Placed {
  state: 'popped' | 'filled' | 'gone';
}

export interface Got {
  token: number;
  length: number;
  buffer: Buffer;
}

export interface Taken {
  id: number;
  buffer: Buffer;
  out: Range[];
  in: Range[];
}

const FAR = 0x8000;

/** 2.7.7, 2.7.10: an event index was passed if the entry that it names is one of the last `count`. */
const passed = (event: number, idx: number, count: number): boolean =>
  count >= 65536 || ((idx - event - 1) & 0xffff) < count;

const zeroStats = () => ({
  added: 0,
  completed: 0,
  bytesOut: 0,
  bytesIn: 0,
  kicksSent: 0,
  kicksSuppressed: 0,
  interruptsSent: 0,
  interruptsSuppressed: 0,
  full: 0,
  clamped: 0,
  indirect: 0,
  tableFailed: 0,
});

export class Model {
  readonly driverStats = zeroStats();
  readonly deviceStats = zeroStats();

  private free: number[] = [];
  private readonly granules: boolean[];
  private granuleCursor = 0;

  /** By head. */
  private readonly withDevice = new Map<number, Placed>();
  private pending: Placed[] = [];
  private popped: Popped[] = [];
  /** By position in the used ring, not yet published. */
  private readonly filled = new Map<number, { popped: Popped; written: number }>();
  private used: { placed: Placed; written: number }[] = [];

  // Free-running indices; the ring has the lower 16 bits of them.
  private availIdx = 0;
  private availSeen = 0;
  private usedIdx = 0;
  private usedSeen = 0;
  private kicked = 0;
  private signalled = 0;

  private callbacks = true;
  private notifications = true;
  private usedEvent = 0;
  private availEvent = 0;

  constructor(private readonly options: ModelOptions) {
    this.granules = new Array(options.granules).fill(false);
    this.clear();
  }

  private clear(): void {
    const { size } = this.options;
    this.free = Array.from({ length: size }, (_, i) => i);
    this.granules.fill(false);
    this.granuleCursor = 0;
    this.withDevice.clear();
    this.pending = [];
    this.popped = [];
    this.filled.clear();
    this.used = [];
    this.availIdx = this.availSeen = this.usedIdx = this.usedSeen = this.kicked = this.signalled = 0;
    this.callbacks = this.notifications = true;
    this.usedEvent = this.availEvent = 0;
  }

  // ---- What the test chooses from ----

  get numFree(): number {
    return this.free.length;
  }

  get driverInFlight(): number {
    return this.withDevice.size;
  }

  get tableBytes(): number {
    return 16 * this.granules.filter((taken) => taken).length;
  }

  get deviceInFlight(): number {
    return this.popped.filter(({ state }) => state !== 'gone').length;
  }

  /** Heads of the elements that the device can push, oldest first. */
  get inHand(): number[] {
    return this.popped.filter(({ state }) => state === 'popped').map(({ chain }) => chain[0]);
  }

  /** Elements at the front that are gone can never be put back: forgets them. */
  private trim(): void {
    const first = this.popped.findIndex(({ state }) => state !== 'gone');
    this.popped.splice(0, first < 0 ? this.popped.length : first);
  }

  private find(id: number): Popped | undefined {
    return this.popped.find(({ state, chain }) => state === 'popped' && chain[0] === id);
  }

  bufferOf(id: number): Buffer | undefined {
    return this.find(id)?.buffer;
  }

  // ---- Driver ----

  private allocate(count: number): number {
    const { granules } = this;
    for (const from of [this.granuleCursor, 0])
      for (let start = from; start + count <= granules.length; start++) {
        const taken = granules.slice(start, start + count).lastIndexOf(true);
        if (taken >= 0) {
          start += taken;
          continue;
        }
        granules.fill(true, start, start + count);
        this.granuleCursor = start + count;
        return start;
      }
    return -1;
  }

  private place(buffer: Buffer): Placed | undefined {
    const count = buffer.out.length + buffer.in.length;
    if (count > 1 && this.options.indirect && this.free.length > 0) {
      const start = this.allocate(count);
      if (start >= 0) {
        this.driverStats.indirect++;
        return { buffer, chain: this.free.splice(0, 1), table: { start, count } };
      }
      this.driverStats.tableFailed++;
    }
    if (count > this.free.length) return undefined;
    return { buffer, chain: this.free.splice(0, count), table: undefined };
  }

  /** How many of the buffers went in. */
  addBurst(buffers: Buffer[]): number | Refused {
    let added = 0;
    for (const buffer of buffers) {
      if (buffer.out.length + buffer.in.length > this.options.size) {
        if (added === 0) return INVALID;
        break;
      }
      const placed = this.place(buffer);
      if (!placed) {
        this.driverStats.full++;
        break;
      }
      this.withDevice.set(placed.chain[0], placed);
      this.pending.push(placed);
      this.driverStats.bytesOut += bytesOf(buffer.out);
      added++;
    }
    this.availIdx += added;
    this.driverStats.added += added;
    return added;
  }

  add(buffer: Buffer): boolean | Refused {
    const added = this.addBurst([buffer]);
    return typeof added === 'number' ? added === 1 : added;
  }

  kickPrepare(): boolean {
    const added = this.availIdx - this.kicked;
    this.kicked = this.availIdx;
    if (this.options.eventIdx && added === 0) return false;
    const wanted = this.options.eventIdx ? passed(this.availEvent, this.availIdx, added) : this.notifications;
    if (wanted) this.driverStats.kicksSent++;
    else this.driverStats.kicksSuppressed++;
    return wanted;
  }

  private takeBack(placed: Placed): void {
    this.withDevice.delete(placed.chain[0]);
    this.free.unshift(...placed.chain);
    if (placed.table) {
      const { start, count } = placed.table;
      this.granules.fill(false, start, start + count);
      this.granuleCursor = start;
    }
  }

  getBurst(max: number): Got[] {
    const got = this.used.splice(0, max).map(({ placed, written }) => {
      this.takeBack(placed);
      this.driverStats.bytesIn += written;
      return { token: placed.buffer.token, length: written, buffer: placed.buffer };
    });
    this.usedSeen += got.length;
    this.driverStats.completed += got.length;
    if (got.length > 0 && this.options.eventIdx && this.callbacks) this.usedEvent = this.usedSeen;
    return got;
  }

  moreUsed(): boolean {
    return this.used.length > 0;
  }

  disableCallbacks(): void {
    this.callbacks = false;
    this.usedEvent = this.usedSeen + FAR;
  }

  enableCallbacksPrepare(): number {
    this.callbacks = true;
    this.usedEvent = this.usedSeen;
    return this.usedSeen & 0xffff;
  }

  poll(opaque: number): boolean {
    return (this.usedIdx & 0xffff) !== opaque;
  }

  enableCallbacks(): boolean {
    this.enableCallbacksPrepare();
    return this.used.length === 0;
  }

  enableCallbacksDelayed(): boolean {
    const enough = Math.floor((this.withDevice.size * 3) / 4);
    this.callbacks = true;
    this.usedEvent = this.usedSeen + enough;
    return this.used.length <= enough;
  }

  /** Both sides as new. Returns the buffers that were in flight, lowest head first. */
  reset(): Buffer[] {
    const heads = [...this.withDevice.keys()].sort((a, b) => a - b);
    const buffers = heads.map((head) => (this.withDevice.get(head) as Placed).buffer);
    this.clear();
    return buffers;
  }

  // ---- Device ----

  private pieces(ranges: Range[]): Range[] {
    return ranges.flatMap((range) =>
      range.length === 0 ? [{ address: 0, length: 0 }] : this.options.translate(range),
    );
  }

  popBurst(max: number, capacity: number): Taken[] | Refused {
    const taken: Taken[] = [];
    let room = capacity;
    while (taken.length < max && this.pending.length > 0) {
      const [placed] = this.pending;
      const { buffer, chain } = placed;
      const out = this.pieces(buffer.out);
      const in_ = this.pieces(buffer.in);
      room -= out.length + in_.length;
      if (room < 0) {
        if (taken.length === 0) return NO_ROOM;
        break;
      }
      this.pending.shift();
      this.popped.push({ ...placed, state: 'popped' });
      this.deviceStats.added++;
      this.deviceStats.bytesOut += bytesOf(buffer.out);
      if (placed.table) this.deviceStats.indirect++;
      taken.push({ id: chain[0], buffer, out, in: in_ });
    }
    this.availSeen += taken.length;
    if (taken.length > 0 && this.options.eventIdx && this.notifications) this.availEvent = this.availSeen;
    return taken;
  }

  fill(id: number, written: number, offset: number): undefined | Refused {
    const popped = this.find(id);
    if (!popped || written > bytesOf(popped.buffer.in)) return INVALID;
    // Further ahead there may be entries that the driver has not taken yet.
    if (offset >= this.deviceInFlight || this.filled.has(this.usedIdx + offset)) return INVALID;
    popped.state = 'filled';
    this.filled.set(this.usedIdx + offset, { popped, written });
    return undefined;
  }

  flush(n: number): undefined | Refused {
    for (let i = 0; i < n; i++) if (!this.filled.has(this.usedIdx + i)) return INVALID;
    for (let i = 0; i < n; i++) {
      const { popped, written } = this.filled.get(this.usedIdx) as { popped: Popped; written: number };
      this.filled.delete(this.usedIdx++);
      popped.state = 'gone';
      this.used.push({ placed: popped, written });
      this.deviceStats.completed++;
      this.deviceStats.bytesIn += written;
    }
    this.trim();
    return undefined;
  }

  push(id: number, written: number): undefined | Refused {
    return this.fill(id, written, 0) ?? this.flush(1);
  }

  /** How many were pushed before the first that cannot be. */
  pushBurst(elements: { id: number; written: number }[]): number | Refused {
    if (this.filled.size > 0) return INVALID;
    let pushed = 0;
    for (const { id, written } of elements) {
      if (this.push(id, written)) break;
      pushed++;
    }
    return pushed;
  }

  rewind(n: number): boolean {
    if (n > this.deviceInFlight) return false;
    const last = this.popped.slice(this.popped.length - n);
    if (last.some(({ state }) => state !== 'popped')) return false;
    this.popped.length -= n;
    this.pending.unshift(...last);
    this.availSeen -= n;
    return true;
  }

  unpop(id: number): undefined | Refused {
    const last = this.popped.at(-1);
    return last?.state === 'popped' && last.chain[0] === id && this.rewind(1) ? undefined : INVALID;
  }

  detach(id: number): undefined | Refused {
    const popped = this.find(id);
    if (!popped) return INVALID;
    popped.state = 'gone';
    this.trim();
    return undefined;
  }

  availableBytes(maxIn: number, maxOut: number): { in: number; out: number } {
    const sum = { in: 0, out: 0 };
    for (const { buffer } of this.pending) {
      if (sum.in >= maxIn && sum.out >= maxOut) break;
      sum.in += bytesOf(buffer.in);
      sum.out += bytesOf(buffer.out);
    }
    return sum;
  }

  shouldInterrupt(): boolean {
    const pushed = this.usedIdx - this.signalled;
    this.signalled = this.usedIdx;
    if (pushed === 0) return false;
    const wanted = this.options.eventIdx ? passed(this.usedEvent, this.usedIdx, pushed) : this.callbacks;
    if (wanted) this.deviceStats.interruptsSent++;
    else this.deviceStats.interruptsSuppressed++;
    return wanted;
  }

  enableNotifications(): boolean {
    this.notifications = true;
    this.availEvent = this.availSeen;
    return this.pending.length === 0;
  }

  disableNotifications(): void {
    this.notifications = false;
    this.availEvent = this.availSeen + FAR;
  }
}
