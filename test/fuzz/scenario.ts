import { isDeepStrictEqual } from 'node:util';
import type { DeviceState, DriverState, QueueStats } from '../../src/index.js';
import { Attack } from './attack.js';
import { type Config, chooseTables } from './config.js';
import { forge } from './forged-state.js';
import { Layout } from './layout.js';
import type { Kind, Op } from './ops.js';
import { Random } from './prng.js';
import { BURST, COMPLETIONS, ELEMENTS, type Place, type Poke, type Segment, World } from './world.js';

/** What is wrong, by the rule that it breaks. */
export type Rule =
  | 'verdict' // the engines answer differently
  | 'bytes' // they leave different bytes
  | 'state' // they count, or save, something different
  | 'fence' // a byte outside of everything was written, or a piece lies outside the regions
  | 'bound' // a number is larger than it may be
  | 'tokens' // a token was lost, or handed back twice
  | 'broken' // a broken queue goes on, or changes its mind
  | 'recovery' // no normal round trip after a reset
  | 'crash' // something other than a VringError was thrown
  | 'leak' // memory of the arena was not given back
  | 'hang'; // no end within the time that the watchdog allows

export interface Finding {
  rule: Rule;
  /** Name of the operation in which it showed. */
  during: string;
  message: string;
  /** Index of the operation. */
  at: number;
}

class Broken extends Error {
  constructor(
    readonly rule: Rule,
    message: string,
  ) {
    super(message);
  }
}

type Side = 'driver' | 'device';

/** Operations that a broken queue must refuse. */
const REFUSED = new Set(['add', 'getBuf', 'getBurst', 'pop', 'popBurst', 'push', 'fill', 'availableBytes']);

function show(value: unknown): string {
  return JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? `0x${v.toString(16)}` : v));
}

const U32 = 2 ** 32 - 1;

/** A step, spelled out: only where somebody reads it. */
function line(what: string, details: unknown[]): string {
  return [what, ...details.map((detail) => show(detail))].join(' ');
}

/** Both engines under one list of operations. */
export class Scenario {
  private readonly layout: Layout;
  private readonly worlds: World[] = [];
  private readonly attack: Attack;
  private readonly random = new Random(0);
  /** Where pokes go: into the memories, or into what a callback will write. */
  private arming: Poke[] | undefined;
  private size: number;

  /** Tokens that are with the device, with the writable length of their buffers. */
  private readonly outstanding = new Map<number, number>();
  /** Buffers that wait in the burst. */
  private waiting: { token: number; room: number }[] = [];
  private nextToken = 1;
  /** What the device holds, in the order in which it was popped. */
  private held: { id: number; room: number }[] = [];
  private counts = ELEMENTS.map(() => 0);
  private opaque = 0;
  /** The error of a broken queue. */
  private readonly fault = { driver: '', device: '' };
  /** The device goes by a state that it never was in. */
  private forged = false;
  private during = '';
  private verified = 0;

  /**
   * @param every how many operations lie between two looks at all bytes
   * @param trace takes a line for each step
   */
  constructor(
    private readonly config: Config,
    places: readonly Place[],
    private readonly every: number,
    private readonly trace?: string[],
  ) {
    this.size = config.size;
    this.layout = new Layout(config);
    for (const place of places) this.worlds.push(new World(place, config, this.layout));
    this.attack = new Attack(
      config,
      this.layout,
      places[0].bytes,
      this.random,
      (at, bytes, value) => this.write(at, bytes, value),
      () => this.sight,
    );
  }

  /** Runs the operations. @param step is told the index of each before it starts */
  run(ops: readonly Op[], step?: (index: number) => void): Finding | undefined {
    let at = 0;
    try {
      for (; at < ops.length; at++) {
        step?.(at);
        const [kind, seed] = ops[at];
        this.during = kind;
        this.random.seed(seed);
        // Little comes of a queue that is broken: some refusals, and then a reset.
        if ((this.fault.driver !== '' || this.fault.device !== '') && this.random.once(5)) this.reset();
        this.operate(kind);
        if (at % this.every === this.every - 1) this.verify();
      }
      this.during = 'end';
      this.verify();
      this.recover();
      this.verify();
    } catch (error) {
      if (error instanceof Broken)
        return { rule: error.rule, during: this.during, message: error.message, at };
      const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
      return { rule: 'crash', during: this.during, message, at };
    }
    return undefined;
  }

  /** Gives everything back; after a finding it cannot be expected to work. */
  release(): Finding | undefined {
    try {
      for (const world of this.worlds) world.release();
    } catch (error) {
      return { rule: 'leak', during: 'release', message: String(error), at: -1 };
    }
    return undefined;
  }

  // ---- Steps on both engines ----

  /** Does the same on both and compares what comes of it. Returns what the first one returned. */
  private both(side: Side, what: string, act: (world: World) => void, ...details: unknown[]): World {
    const [first, second] = this.worlds;
    first.attempt(act);
    second.attempt(act);
    const { out, error } = first;
    if (this.trace !== undefined) this.trace.push(`${line(what, details)} → ${error || show(out)}`);
    let same = error === second.error && out.length === second.out.length && first.called === second.called;
    for (let i = 0; same && i < out.length; i++) same = out[i] === second.out[i];
    if (!same)
      throw new Broken(
        'verdict',
        `${line(what, details)}: ${this.name(0)} ${error || show([out, first.called])}, ${this.name(1)} ${second.error || show([second.out, second.called])}`,
      );
    if (error !== '') this.refused(side, what, error);
    else if (this.fault[side] !== '' && REFUSED.has(what))
      throw new Broken(
        'broken',
        `${line(what, details)} works on a queue that is broken: ${this.fault[side]}`,
      );
    return first;
  }

  private name(world: number): string {
    return this.worlds[world].place.engine;
  }

  /** What was refused because the queue is broken is refused for the same reason until a reset. */
  private refused(side: Side, name: string, error: string): void {
    const { fault } = this;
    if (!error.includes(': the queue is broken: ')) return;
    const said = error.replace('the queue is broken: ', '').replace('; reset it', '');
    if (fault[side] === '') {
      fault[side] = said;
      const [first, second] = this.worlds.map((world) => world.fault(side));
      if (first !== second || first !== said)
        throw new Broken('broken', `${name}: ${error}, but the faults are ${show([first, second])}`);
    } else if (fault[side] !== said) throw new Broken('broken', `${name}: was ${fault[side]}, is ${error}`);
  }

  private write(at: number, bytes: number, value: bigint): void {
    const data = new Uint8Array(bytes);
    let rest = BigInt.asUintN(64, value);
    for (let i = 0; i < bytes; i++, rest >>= 8n) data[i] = Number(rest & 0xffn);
    this.trace?.push(`${this.arming ? 'armed ' : ''}poke ${this.locate(at)} = ${show([...data])}`);
    if (this.arming !== undefined) this.arming.push({ at, data });
    else for (const world of this.worlds) world.poke({ at, data });
  }

  /** Name of an address, for people. */
  private locate(at: number): string {
    const { areas, bytes, tables } = this.layout;
    for (const area of ['descriptor', 'driver', 'device'] as const)
      if (at >= areas[area] && at < areas[area] + bytes[area]) return `${area}+${at - areas[area]}`;
    if (at >= tables.address && at < tables.address + tables.length) return `table+${at - tables.address}`;
    return String(at);
  }

  private get sight() {
    const { driver } = this.worlds[0];
    return { position: driver.notificationData(0) >>> 16, numFree: driver.numFree, held: this.held };
  }

  // ---- What is looked at now and then ----

  private verify(): void {
    const [first, second] = this.worlds;
    const numbers = first.numbers();
    const others = second.numbers();
    for (let i = 0; i < numbers.length; i++)
      if (numbers[i] !== others[i])
        throw new Broken(
          'state',
          `numFree, inFlight, tableBytes, device.inFlight, notificationData: ${this.name(0)} ${show(numbers)}, ${this.name(1)} ${show(others)}`,
        );
    const [numFree, inFlight, tableBytes, taken] = numbers;
    if (
      numFree > this.size ||
      inFlight > this.size ||
      taken > this.size ||
      tableBytes > this.layout.tables.length
    )
      throw new Broken('bound', `numFree, inFlight, tableBytes, device.inFlight: ${show(numbers)}`);
    if (inFlight !== this.outstanding.size)
      throw new Broken('tokens', `${inFlight} in flight, ${this.outstanding.size} tokens out`);
    for (const range of this.layout.owned)
      if (Buffer.compare(first.bytes(range), second.bytes(range)) !== 0) {
        const [a, b] = [first.bytes(range), second.bytes(range)];
        const at = a.findIndex((byte, i) => byte !== b[i]);
        throw new Broken(
          'bytes',
          `${this.locate(range.start + at)}: ${this.name(0)} ${a[at]}, ${this.name(1)} ${b[at]}`,
        );
      }
    for (const world of this.worlds) this.verifyGuards(world);
    for (const side of ['driver', 'device'] as const) {
      const [a, b] = [first.fault(side), second.fault(side)];
      if (a !== b)
        throw new Broken('state', `fault of ${side}: ${this.name(0)} '${a}', ${this.name(1)} '${b}'`);
      if (this.fault[side] !== '' && this.fault[side] !== a)
        throw new Broken('broken', `the fault of ${side} was ${this.fault[side]}, is now '${a}'`);
    }
    if (this.verified++ % 4 === 0 || this.during === 'end' || this.every === 1) {
      const [a, b] = [first.stats(), second.stats()];
      for (let side = 0; side < 2; side++)
        if (!sameStats(a[side], b[side]))
          throw new Broken(
            'state',
            `stats of ${side === 0 ? 'driver' : 'device'}: ${this.name(0)} ${show(a[side])}, ${this.name(1)} ${show(b[side])}`,
          );
    }
  }

  private verifyGuards(world: World): void {
    for (const range of this.layout.guards)
      if (
        Buffer.compare(world.bytes(range), world.place.sentinels.subarray(0, range.end - range.start)) !== 0
      ) {
        const at = range.start + world.bytes(range).findIndex((byte) => byte !== world.place.filler);
        throw new Broken('fence', `byte ${at} of ${world.place.engine} was written, and belongs to nobody`);
      }
  }

  // ---- Tokens ----

  private handOut(token: number, room: number): void {
    this.outstanding.set(token, room);
  }

  private takeBack(token: number, length: number): void {
    const room = this.outstanding.get(token);
    if (room === undefined) throw new Broken('tokens', `token ${token} came back, and was not out`);
    if (length > room)
      throw new Broken('bound', `length ${length} of token ${token}, which has room for ${room}`);
    this.outstanding.delete(token);
  }

  private takeBackAll(out: readonly number[]): void {
    for (const token of out) this.takeBack(token, 0);
    if (this.outstanding.size > 0)
      throw new Broken('tokens', `${show([...this.outstanding.keys()])} were lost`);
  }

  private takeBackList(out: readonly number[]): void {
    for (let i = 0; i < out.length; i += 2) this.takeBack(out[i], out[i + 1]);
  }

  // ---- Elements ----

  /** Notes what was popped, and writes where the driver wants the device to: also into the ring. */
  private popped(out: readonly number[]): number {
    let count = 0;
    for (let i = 0; i < out.length; count++) {
      const id = out[i++];
      const outs = out[i++];
      const ins = out[i++];
      let room = 0;
      for (let p = 0; p < outs + ins; p++) {
        const address = out[i++];
        const length = out[i++];
        if (length > 0 && !this.layout.reaches(address, length))
          throw new Broken(
            'fence',
            `a piece of element ${id} at ${address}, length ${length}, is outside every region`,
          );
        if (p < outs) continue;
        room += length;
        const bytes = Math.min(length, 8);
        for (const { place } of this.worlds) place.bytes.fill((id + p) & 0xff, address, address + bytes);
      }
      if (id >= this.size) throw new Broken('bound', `element ${id} in a queue of ${this.size}`);
      if (this.held.some((element) => element.id === id))
        throw new Broken('bound', `element ${id} was popped twice`);
      this.held.push({ id, room: Math.min(room, U32) });
    }
    if (this.held.length > this.size) throw new Broken('bound', `${this.held.length} elements in flight`);
    return count;
  }

  private forget(id: number): void {
    const at = this.held.findIndex((element) => element.id === id);
    if (at >= 0) this.held.splice(at, 1);
  }

  /** An element in flight, most of the time. */
  private element(): { id: number; room: number } {
    const { random, held, size } = this;
    if (held.length > 0 && !random.once(16)) return held[random.once(2) ? 0 : random.below(held.length)];
    return { id: random.once(8) ? random.u32() : random.below(size + 1), room: 0 };
  }

  private written(room: number): number {
    const { random } = this;
    if (random.once(3)) return room;
    return random.once(30) ? Math.min(U32, room + 1) : random.below(Math.min(room + 1, 64));
  }

  // ---- Operations ----

  private buffer(): { out: Segment[]; in: Segment[]; token: number; room: number } {
    const { random, attack } = this;
    const count = attack.chainLength();
    const outs = random.once(3) ? 0 : random.below(count + 1);
    const out: Segment[] = [];
    const in_: Segment[] = [];
    for (let i = 0; i < count; i++) (i < outs ? out : in_).push(attack.segment());
    const room = in_.reduce((sum, { length }) => sum + length, 0);
    return { out, in: in_, token: this.nextToken++, room: Math.min(room, U32) };
  }

  private append(): void {
    const { out, in: in_, token, room } = this.buffer();
    const world = this.both('driver', 'append', (w) => w.append(out, in_, token), out, in_, token);
    if (world.error === '') this.waiting.push({ token, room });
  }

  private addBurst(): void {
    const { out, error } = this.both('driver', 'addBurst', (w) => w.addBurst());
    if (error !== '') {
      // A buffer that no queue takes would stay for ever.
      this.clearBurst();
      return;
    }
    const [added, pending] = out;
    if (added + pending !== this.waiting.length)
      throw new Broken('bound', `${added} added and ${pending} pending of ${this.waiting.length}`);
    for (const { token, room } of this.waiting.splice(0, added)) this.handOut(token, room);
  }

  private clearBurst(): void {
    this.both('driver', 'clearBurst', (w) => w.clearBurst());
    this.waiting = [];
  }

  private operate(kind: Kind): void {
    const { random } = this;
    switch (kind) {
      case 'add': {
        const { out, in: in_, token, room } = this.buffer();
        const world = this.both('driver', kind, (w) => w.add(out, in_, token), out, in_, token);
        if (world.out[0] === 1) this.handOut(token, room);
        return;
      }
      case 'burst':
        this.clearBurst();
        for (let n = 1 + random.below(BURST.buffers); n > 0; n--) this.append();
        this.addBurst();
        return;
      case 'append':
        this.append();
        return;
      case 'addBurst':
        this.addBurst();
        return;
      case 'clearBurst':
        this.clearBurst();
        return;
      case 'getBuf':
        this.takeBackList(this.both('driver', kind, (w) => w.getBuf()).out);
        return;
      case 'getBurst': {
        const which = random.below(COMPLETIONS.length);
        this.takeBackList(this.both('driver', kind, (w) => w.getBurst(which), which).out);
        return;
      }
      case 'enableCallbacksPrepare': {
        const { out } = this.both('driver', kind, (w) => w.enableCallbacksPrepare());
        this.opaque = out[0] ?? 0;
        return;
      }
      case 'poll': {
        const opaque = random.once(10) ? random.below(65537) : this.opaque;
        this.both('driver', kind, (w) => w.answer(w.driver.poll(opaque)), opaque);
        return;
      }
      case 'setTables': {
        const options = chooseTables(random);
        this.both('driver', kind, (w) => w.driver.setTables(options), options.strategy);
        return;
      }
      case 'trimTables': {
        const length = random.below(5);
        this.both('driver', kind, (w) => w.driver.trimTables(length), length);
        return;
      }
      case 'disableCallbacks':
        this.both('driver', kind, (w) => w.driver.disableCallbacks());
        return;
      case 'kick':
      case 'moreUsed':
      case 'enableCallbacks':
      case 'enableCallbacksDelayed':
        this.both('driver', kind, (w) => w.answer(w.driver[kind]()));
        return;
      case 'detachUnused':
        // Only a reset makes the queue usable again after that.
        for (let n = random.below(4); n > 0; n--) {
          const { out } = this.both('driver', kind, (w) => w.detachUnused());
          if (out.length > 0) this.takeBack(out[0], 0);
        }
        this.reset();
        return;
      case 'pop':
        this.popped(this.both('device', kind, (w) => w.pop()).out);
        return;
      case 'popBurst':
        this.popBurst();
        return;
      case 'push': {
        const { id, room } = this.element();
        const written = this.written(room);
        const { error } = this.both('device', kind, (w) => w.device.push({ id }, written), id, written);
        // With slots in front not filled, the entry of a refused push stays filled.
        if (error === '' || !this.worlds[0].holds(id)) this.forget(id);
        return;
      }
      case 'pushBurst':
        this.pushBurst();
        return;
      case 'fill': {
        const { id, room } = this.element();
        const written = this.written(room);
        const offset = random.once(10) ? random.below(this.size + 2) : random.below(3);
        const act = (w: World) => w.device.fill({ id }, written, offset);
        const { error } = this.both('device', kind, act, id, written, offset);
        if (error === '') this.forget(id);
        return;
      }
      case 'flush': {
        const n = random.once(10) ? random.below(this.size + 2) : random.below(3);
        this.both('device', kind, (w) => w.device.flush(n), n);
        return;
      }
      case 'unpop': {
        const id = random.once(3) ? this.element().id : (this.held.at(-1)?.id ?? 0);
        const { error } = this.both('device', kind, (w) => w.device.unpop({ id }), id);
        if (error === '') this.forget(id);
        return;
      }
      case 'rewind': {
        const n = random.once(10) ? random.below(this.size + 2) : random.below(3);
        const { out } = this.both('device', kind, (w) => w.answer(w.device.rewind(n)), n);
        if (out[0] === 1 && n > 0) this.held.splice(-n);
        return;
      }
      case 'detach': {
        const { id } = this.element();
        const { error } = this.both('device', kind, (w) => w.device.detach({ id }), id);
        if (error === '') this.forget(id);
        return;
      }
      case 'availableBytes': {
        const limit = () => (random.once(3) ? 1e12 : random.below(100));
        const [maxIn, maxOut] = [limit(), limit()];
        this.both('device', kind, (w) => w.availableBytes(maxIn, maxOut), maxIn, maxOut);
        return;
      }
      case 'disableNotifications':
        this.both('device', kind, (w) => w.device.disableNotifications());
        return;
      case 'shouldInterrupt':
      case 'enableNotifications':
        this.both('device', kind, (w) => w.answer(w.device[kind]()));
        return;
      case 'setRegions': {
        // Fewer of them, most of the time all.
        const regions = this.layout.regions.filter(() => !random.once(12));
        this.both('device', kind, (w) => w.setRegions(regions), regions);
        return;
      }
      case 'saveDriver':
        this.saveAndRestore('driver');
        return;
      case 'saveDevice':
        this.saveAndRestore('device');
        return;
      case 'forgeState':
        this.forgeState(random.once(2) ? 'driver' : 'device');
        return;
      case 'jump':
        this.jump();
        return;
      case 'reset':
        this.reset();
        return;
      case 'recover':
        this.recover();
        return;
      case 'resize':
        this.resize();
        return;
      case 'arm':
        this.arming = [];
        this.attack.mutate();
        for (const world of this.worlds) world.armed = this.arming[0];
        this.arming = undefined;
        return;
      default:
        this.attack[kind]();
        return;
    }
  }

  private popBurst(): void {
    const { random } = this;
    const which = random.below(ELEMENTS.length);
    const { capacity } = ELEMENTS[which];
    const max = random.once(4) ? random.below(capacity + 1) : capacity;
    const { out, error } = this.both('device', 'popBurst', (w) => w.popBurst(which, max), which, max);
    if (error === '') this.counts[which] = this.popped(out);
    else this.counts[which] = this.worlds[0].elements[which].count;
  }

  private pushBurst(): void {
    const { random } = this;
    const which = random.below(ELEMENTS.length);
    const elements = this.worlds[0].elements[which];
    const count = Math.min(this.counts[which], elements.count);
    const n = random.once(8) ? random.below(count + 2) : count;
    const ids: number[] = [];
    for (let i = 0; i < count; i++) {
      const id = elements.id(i);
      ids.push(id);
      const written = this.written(this.held.find((element) => element.id === id)?.room ?? 0);
      for (const world of this.worlds) world.elements[which].setWritten(i, written);
    }
    const { error } = this.both('device', 'pushBurst', (w) => w.pushBurst(which, n), which, n, ids);
    if (error === '') for (const id of ids.slice(0, n)) this.forget(id);
    else for (const id of ids) if (!this.worlds[0].holds(id)) this.forget(id);
  }

  // ---- Both sides at once ----

  private clear(): void {
    this.fault.driver = '';
    this.fault.device = '';
    this.forged = false;
    this.held = [];
    this.waiting = [];
    this.opaque = 0;
    this.attack.reset();
  }

  private reset(): void {
    const { out } = this.both('driver', 'reset', (w) => w.reset());
    this.takeBackAll(out);
    this.clear();
  }

  /** However broken: after a reset it is a queue again. */
  private recover(): void {
    this.reset();
    const { layout, size } = this;
    this.both('device', 'setRegions', (w) => w.setRegions(layout.regions));
    const rounds = 1 + this.random.below(3);
    for (let round = 0; round < rounds; round++) {
      const token = this.nextToken++;
      const out = size > 1 ? [{ address: layout.guest, length: 5 }] : [];
      const in_ = [{ address: layout.guest + 8n, length: 7 }];
      this.handOut(token, 7);
      this.expect('add', this.both('driver', 'add after reset', (w) => w.add(out, in_, token)).out, [1]);
      const popped = this.both('device', 'pop after reset', (w) => w.pop()).out;
      this.expect('pop', popped.slice(1, 3), [out.length, 1]);
      this.expect('piece', popped.at(-1), 7);
      const id = popped[0];
      this.popped(popped);
      const { error } = this.both('device', 'push after reset', (w) => w.device.push({ id }, 3));
      this.expect('push', error, '');
      this.forget(id);
      const got = this.both('driver', 'getBuf after reset', (w) => w.getBuf()).out;
      this.expect('getBuf', got, [token, 3]);
      this.takeBackList(got);
      this.expect('numbers', this.worlds[0].numbers().slice(0, 4), [size, 0, 0, 0]);
    }
  }

  private expect(what: string, actual: unknown, expected: unknown): void {
    if (show(actual) !== show(expected))
      throw new Broken('recovery', `${what} after a reset: ${show(actual)}, not ${show(expected)}`);
  }

  private resize(): void {
    const { config, random } = this;
    const limit = Math.log2(config.size);
    const size = config.ring === 'split' ? 2 ** random.below(limit + 1) : 1 + random.below(config.size);
    this.both('device', 'setRegions', (w) => w.setRegions(this.layout.regions));
    const { out } = this.both('driver', 'resize', (w) => w.resize(size), size);
    this.takeBackAll(out);
    this.clear();
    this.size = size;
    this.attack.size = size;
  }

  // ---- Saved states ----

  /** The state of one side, the same on both engines; undefined if it is broken. */
  private save(side: Side): (DriverState | DeviceState)[] | undefined {
    const states: (DriverState | DeviceState)[] = [];
    const { error } = this.both(side, 'save', (w) => {
      states.push(w[side].save());
    });
    if (error !== '') return undefined;
    const texts = states.map((state) => JSON.stringify(state, Object.keys(state).sort().concat(KEYS)));
    if (texts[0] !== texts[1])
      throw new Broken('state', `saved ${side}: ${this.name(0)} ${texts[0]}, ${this.name(1)} ${texts[1]}`);
    return states;
  }

  /** Whatever the peer did, what was saved can be restored, also into the other engine. */
  private saveAndRestore(side: Side): void {
    const states = this.save(side);
    if (states === undefined || this.random.once(3)) return;
    let i = states.length;
    const { error } = this.both(side, 'restore', (w) => w.restore(side, states[--i]), side);
    // Positions that are far apart are not refused: they may be, with detached elements.
    if (error !== '' && !(side === 'device' && this.forged))
      throw new Broken('state', `what ${side}.save() returned is refused: ${error}: ${show(states[0])}`);
  }

  /** A state that somebody has changed is refused, or it is one that a queue can be in. */
  private forgeState(side: Side): void {
    const states = this.save(side);
    if (states === undefined) return;
    const state = forge(states[0], this.random);
    const { error } = this.both(side, 'restore forged', (w) => w.restore(side, state), state);
    if (error !== '') return;
    if (side === 'device') {
      // The elements may be other ones now.
      this.held = (state as DeviceState).elements
        .filter(({ written }) => written < 0)
        .map(({ id, writable }) => ({ id, room: writable }));
      this.forged = true;
    } else {
      this.outstanding.clear();
      for (const { token, writable } of (state as DriverState).buffers) this.outstanding.set(token, writable);
      // Tokens that appear twice cannot be told apart.
      if (this.outstanding.size !== (state as DriverState).buffers.length) {
        this.outstanding.clear();
        this.both('driver', 'reset', (w) => w.reset());
        this.clear();
      }
    }
  }

  /** Split rings close to where their indices wrap; nobody gets there in a run of this length. */
  private jump(): void {
    if (this.config.ring !== 'split') return;
    this.reset();
    const at = 65536 - 1 - this.random.below(this.size + 3);
    for (const side of ['driver', 'device'] as const) {
      const states = this.save(side);
      if (states === undefined) throw new Broken('recovery', `${side} cannot be saved after a reset`);
      for (const state of states) state.avail = state.used = at;
      const { error } = this.both(side, 'restore', (w) => w.restore(side, states[0]), side, at);
      if (error !== '') throw new Broken('recovery', `restore at ${at}: ${error}`);
    }
    const { driver, device } = this.layout.areas;
    this.write(driver + 2, 2, BigInt(at));
    this.write(device + 2, 2, BigInt(at));
  }
}

/** Keys of what lies deeper in a state: the replacer of JSON.stringify wants them all. */
const KEYS = [
  ...['descriptor', 'driver', 'device', 'address', 'length', 'id', 'token', 'segments', 'writable'],
  ...['table', 'descriptors', 'slots', 'ago', 'written', 'offset'],
];

function sameStats(a: QueueStats, b: QueueStats): boolean {
  for (const key in a) {
    const name = key as keyof QueueStats;
    if (name === 'errors') continue;
    if (!isDeepStrictEqual(a[name], b[name])) return false;
  }
  const [mine, theirs] = [Object.entries(a.errors), b.errors];
  return (
    mine.length === Object.keys(theirs).length &&
    mine.every(([code, n]) => theirs[code as keyof typeof theirs] === n)
  );
}
