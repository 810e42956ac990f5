import { isDeepStrictEqual } from 'node:util';
import { expect } from 'chai';
import fc from 'fast-check';
import type { DriverStats, QueueStats, TableOptions } from '../src/index.js';
import { configs, PAIRINGS, runs } from './support/choices.js';
import {
  BURST,
  COMPLETIONS,
  type Config,
  ELEMENTS,
  Layout,
  type Op,
  type Outcome,
  World,
} from './support/lockstep.js';
import { type Buffer, bytesOf, type Got, Model, Refused, type Taken } from './support/model.js';

/** An operation by name, and three numbers that choose what it is done to. */
type Choice = [Kind, number, number, number];
type Kind = Op[0];

const WEIGHTS: Record<Exclude<Kind, 'cycles'>, number> = {
  add: 16,
  append: 12,
  addBurst: 8,
  clearBurst: 1,
  kick: 4,
  kickPrepare: 4,
  getBuf: 10,
  getBurst: 8,
  moreUsed: 2,
  disableCallbacks: 3,
  enableCallbacks: 3,
  enableCallbacksPrepare: 2,
  poll: 2,
  enableCallbacksDelayed: 4,
  pop: 12,
  popBurst: 10,
  setWritten: 6,
  push: 14,
  pushBurst: 8,
  fill: 8,
  flush: 6,
  unpop: 3,
  rewind: 3,
  detach: 2,
  availableBytes: 4,
  shouldInterrupt: 6,
  enableNotifications: 3,
  disableNotifications: 3,
  setRegions: 1,
  reset: 1,
  notificationData: 2,
  resize: 2,
  setTables: 2,
  trimTables: 1,
  moveDriver: 3,
  moveDevice: 3,
};

const choices: fc.Arbitrary<Choice> = fc.tuple(
  fc.oneof(
    ...Object.entries(WEIGHTS).map(([kind, weight]) => ({ weight, arbitrary: fc.constant(kind as Kind) })),
  ),
  fc.nat(0xffff),
  fc.nat(0xffff),
  fc.nat(0xffff),
);

/** chai makes the report; to compare with it would take most of the time. */
function same(actual: unknown, expected: unknown, what: string): void {
  if (!isDeepStrictEqual(actual, expected)) expect(actual, what).to.deep.equal(expected);
}

/** Statistics without the errors, which a model that never calls anything does not have. */
const counts = ({ errors, ...rest }: QueueStats) => rest;

/** A run: what the model says, and what the test remembers to choose from. */
class Run {
  private readonly model: Model;
  private readonly freeSlots: number[];
  private token = 0;
  private opaque = 0;
  private size: number;
  /** Which place the ring lies in. */
  private at = 0;
  private notified = 0;
  private interrupted = 0;

  /** Buffers that wait in the burst, and how much of its records is used up. */
  private waiting: Buffer[] = [];
  private readonly burstUsed = { buffers: 0, segments: 0 };
  /** What the last popBurst put into each of the element arrays. */
  private readonly records: { id: number; written: number }[][] = ELEMENTS.map(() => []);
  /** By head: what was popped, for whoever pushes it. */
  private readonly taken = new Map<number, Taken>();

  constructor(
    private readonly config: Config,
    private readonly layout: Layout,
    private readonly worlds: World[],
  ) {
    const { ring, inOrder, batches, size, eventIdx, indirect, policy, threshold, tables, granules } = config;
    this.size = size;
    this.model = new Model({
      ring,
      inOrder,
      batches,
      size,
      eventIdx,
      indirect: indirect && policy !== 'never',
      policy: { policy: policy === 'never' ? 'always' : policy, threshold },
      tables,
      granules: indirect && policy !== 'never' ? granules : 0,
      translate: layout.translate,
    });
    this.freeSlots = Array.from({ length: layout.slots }, (_, i) => i);
  }

  // ---- From choices to operations ----

  /** A new buffer in memory that no other buffer has; undefined if there is none left. */
  private buffer(a: number, b: number, c: number): Buffer | undefined {
    const slot = this.freeSlots.shift();
    if (slot === undefined) return undefined;
    const { slotBytes } = this.layout;
    // Mostly short chains; sometimes as long as the queue allows, or one longer.
    let count = c % 8 === 0 ? 1 + (a % (Math.min(this.size, 120) + 1)) : 1 + (a % 5);
    if (c % 16 === 1) count = 1;
    const outs = b % (count + 1);
    const most = Math.floor(slotBytes / count);
    let at = slot * slotBytes;
    const ranges = Array.from({ length: count }, (_, i) => {
      // 0 is a length like any other.
      const length = (b * (i + 3) + a) % (most + 1);
      at += length;
      return { address: at - length, length };
    });
    return { token: this.token++, out: ranges.slice(0, outs), in: ranges.slice(outs), slot };
  }

  private forget(buffer: Buffer): void {
    this.freeSlots.push(buffer.slot);
  }

  /** Any head that can be pushed, or now and then one that cannot. */
  private head(a: number): number {
    const { inHand } = this.model;
    if (inHand.length === 0 || a % 32 === 31) return a % (this.size + 2);
    return inHand[a % inHand.length];
  }

  /** What may have been written to it, or now and then one byte more. */
  private written(writable: number, b: number): number {
    return b % 24 === 23 ? writable + 1 : b % (writable + 1);
  }

  private writtenTo(id: number, b: number): number {
    const buffer = this.model.bufferOf(id);
    return this.written(buffer ? bytesOf(buffer.in) : 0, b);
  }

  private newSize(a: number, b: number): number {
    const { capacity } = this.layout;
    if (a % 8 === 0) return [0, -1, 1.5, 32769, Number.NaN][b % 5];
    // In a split ring only a power of two will do.
    if (this.config.ring === 'packed' || a % 8 === 1) return 1 + (b % capacity);
    return 2 ** (b % (Math.floor(Math.log2(capacity)) + 1));
  }

  private newTables(a: number, b: number, c: number): TableOptions {
    const bound = c % 16;
    return {
      strategy: (['none', 'slab', 'slab-bulk', 'list', 'list'] as const)[a % 5],
      descriptors: 2 + (b % (b % 7 === 0 ? 31 : 4)),
      bound,
      prefill: a % 3 === 0 ? b % (bound + 1) : 0,
    };
  }

  private concrete([kind, a, b, c]: Choice): Op | undefined {
    switch (kind) {
      case 'add':
      case 'append': {
        const buffer = this.buffer(a, b, c);
        return buffer && [kind, buffer];
      }
      case 'poll':
        return [kind, a % 4 === 0 ? b : this.opaque];
      case 'getBurst':
        return [kind, a % COMPLETIONS.length];
      case 'popBurst': {
        const i = a % ELEMENTS.length;
        return [kind, i, b % (ELEMENTS[i].capacity + 1)];
      }
      case 'setWritten': {
        const i = a % ELEMENTS.length;
        const records = this.records[i];
        if (records.length === 0) return undefined;
        const k = b % records.length;
        return [kind, i, k, this.writtenTo(records[k].id, c)];
      }
      case 'push': {
        const id = this.head(a);
        return [kind, id, this.writtenTo(id, b)];
      }
      case 'pushBurst': {
        const i = a % ELEMENTS.length;
        const { length } = this.records[i];
        return [kind, i, b % 3 === 0 ? c % (length + 1) : length];
      }
      case 'fill': {
        const id = this.head(a);
        // Mostly the next few slots, so that there is something to flush.
        return [kind, id, this.writtenTo(id, b), c % (c % 7 === 0 ? this.size + 1 : 3)];
      }
      case 'flush':
        return [kind, a % 4];
      case 'unpop': {
        const { inHand } = this.model;
        return [kind, a % 4 === 0 ? this.head(b) : (inHand.at(-1) ?? 0)];
      }
      case 'rewind':
        return [kind, a % 5];
      case 'detach':
        return [kind, this.head(a)];
      case 'availableBytes':
        return [kind, a % 4 === 0 ? 1e9 : a % 300, b % 4 === 0 ? 1e9 : b % 300];
      case 'setTables':
        return [kind, this.newTables(a, b, c)];
      case 'trimTables':
        return [kind, a % 8];
      case 'notificationData':
        return [kind, a];
      case 'moveDriver':
      case 'moveDevice':
        return [kind, (['same', 'new', 'other', 'other'] as const)[a % 4]];
      case 'resize':
        return [kind, this.newSize(a, b), 1 - this.at];
      case 'cycles':
        return [kind, a];
      default:
        return [kind];
    }
  }

  // ---- What the model says ----

  private interrupt(): void {
    if (this.config.callbacks && this.model.shouldInterrupt()) this.interrupted++;
  }

  private append(buffer: Buffer): undefined | Refused {
    const { burstUsed } = this;
    const segments = buffer.out.length + buffer.in.length;
    if (burstUsed.segments + segments > BURST.segments || burstUsed.buffers === BURST.buffers) {
      this.forget(buffer);
      return new Refused('ENOSPC');
    }
    burstUsed.segments += segments;
    burstUsed.buffers++;
    this.waiting.push(buffer);
    return undefined;
  }

  private clearBurst(): void {
    for (const buffer of this.waiting.splice(0)) this.forget(buffer);
    this.burstUsed.buffers = this.burstUsed.segments = 0;
  }

  private addBurst(): number | Refused {
    if (this.waiting.length === 0) return 0;
    const added = this.model.addBurst(this.waiting);
    if (typeof added === 'number') {
      this.waiting.splice(0, added);
      // Records are used up until the burst is empty.
      if (this.waiting.length === 0) this.burstUsed.buffers = this.burstUsed.segments = 0;
    }
    return added;
  }

  private got(got: Got[]): Got[] {
    for (const { buffer } of got) this.forget(buffer);
    return got;
  }

  private popped(taken: Taken[]): Taken[] {
    for (const element of taken) this.taken.set(element.id, element);
    return taken;
  }

  private predict(op: Op): unknown {
    const { model } = this;
    switch (op[0]) {
      case 'add': {
        const added = model.add(op[1]);
        if (added !== true) this.forget(op[1]);
        return added;
      }
      case 'append':
        return this.append(op[1]);
      case 'addBurst':
        return this.addBurst();
      case 'clearBurst':
        return this.clearBurst();
      case 'kick': {
        const wanted = model.kickPrepare();
        if (wanted && this.config.callbacks) this.notified++;
        return wanted;
      }
      case 'getBuf':
        return this.got(model.getBurst(1));
      case 'getBurst':
        return this.got(model.getBurst(COMPLETIONS[op[1]]));
      case 'enableCallbacksPrepare':
        this.opaque = model.enableCallbacksPrepare();
        return this.opaque;
      case 'poll':
        return model.poll(op[1]);
      case 'pop':
        return this.popped(model.popBurst(1, Number.POSITIVE_INFINITY) as Taken[]);
      case 'popBurst': {
        const taken = model.popBurst(op[2], ELEMENTS[op[1]].pieces);
        if (taken instanceof Refused) return taken;
        this.records[op[1]] = taken.map(({ id }) => ({ id, written: 0 }));
        return this.popped(taken);
      }
      case 'setWritten':
        this.records[op[1]][op[2]].written = op[3];
        return undefined;
      case 'push': {
        const refused = model.push(op[1], op[2]);
        if (!refused) this.interrupt();
        return refused;
      }
      case 'pushBurst': {
        const pushed = model.pushBurst(this.records[op[1]].slice(0, op[2]));
        if (typeof pushed === 'number' && pushed > 0) this.interrupt();
        return pushed === op[2] ? pushed : new Refused('EINVAL');
      }
      case 'fill':
        return model.fill(op[1], op[2], op[3]);
      case 'flush': {
        const refused = model.flush(op[1]);
        if (!refused && op[1] > 0) this.interrupt();
        return refused;
      }
      case 'rewind':
        return model.rewind(op[1]);
      case 'unpop':
        return model.unpop(op[1]);
      case 'detach':
        return model.detach(op[1]);
      case 'availableBytes':
        return model.availableBytes(op[1], op[2]);
      case 'setRegions':
        return undefined;
      case 'reset': {
        const buffers = model.reset();
        for (const buffer of buffers) this.forget(buffer);
        return buffers.map(({ token }) => token);
      }
      case 'resize': {
        const buffers = model.resize(op[1]);
        if (buffers instanceof Refused) return buffers;
        this.size = op[1];
        this.at = op[2];
        for (const buffer of buffers) this.forget(buffer);
        return buffers.map(({ token }) => token);
      }
      case 'notificationData':
        return model.notificationData(op[1]);
      case 'setTables':
        return model.setTables(op[1]);
      case 'trimTables':
        return model.trimTables(op[1]);
      case 'moveDriver':
        // Records belong to the engine: they do not move.
        if (op[1] !== 'same') this.clearBurst();
        model.restore();
        return undefined;
      case 'moveDevice':
        if (op[1] !== 'same') for (const records of this.records) records.length = 0;
        return undefined;
      case 'cycles':
        return this.cycles(op[1]);
      default:
        return model[op[0]]();
    }
  }

  private cycles(rounds: number): unknown {
    const { model } = this;
    this.clearBurst();
    let kicks = 0;
    let interrupts = 0;
    let completed = 0;
    const buffers = Array.from(
      { length: BURST.buffers },
      (_, token): Buffer => ({ token, out: [{ address: 0, length: 1 }], in: [], slot: 0 }),
    );
    for (let round = 0; round < rounds; round++) {
      model.addBurst(buffers);
      kicks += Number(model.kickPrepare());
      const { pieces, capacity } = ELEMENTS[2];
      const taken = model.popBurst(capacity, pieces) as Taken[];
      this.records[2] = taken.map(({ id }) => ({ id, written: 0 }));
      model.pushBurst(this.records[2]);
      if (this.config.callbacks) this.interrupt();
      interrupts += Number(model.shouldInterrupt());
      completed += model.getBurst(COMPLETIONS[2]).length;
    }
    return { kicks, interrupts, completed };
  }

  // ---- Comparing ----

  /** What the model says, in the form of what a world comes to. */
  private shown(predicted: unknown): Outcome {
    if (predicted instanceof Refused) return { refused: predicted.code };
    if (Array.isArray(predicted))
      return predicted.map((item) => (typeof item === 'object' ? { ...item, buffer: undefined } : item));
    return predicted;
  }

  /** The device answers before it pushes. */
  private respond(op: Op): void {
    const pushes: { id: number; written: number }[] =
      op[0] === 'push' || op[0] === 'fill'
        ? [{ id: op[1], written: op[2] }]
        : op[0] === 'pushBurst'
          ? this.records[op[1]].slice(0, op[2])
          : [];
    for (const { id, written } of pushes) {
      const taken = this.taken.get(id);
      if (!taken || !this.model.bufferOf(id) || written > bytesOf(taken.buffer.in)) return;
      for (const world of this.worlds) world.respond(taken.in, taken.buffer.token, written);
    }
  }

  private checkData(predicted: unknown): void {
    if (!Array.isArray(predicted)) return;
    for (const item of predicted as (Taken | Got | number)[]) {
      if (typeof item === 'number') continue;
      for (const world of this.worlds) {
        const intact =
          'length' in item
            ? world.answered(item.buffer, item.length)
            : world.readable(item.out, item.buffer.token);
        if (!intact) throw new Error(`${world.name}: the data of token ${item.buffer.token} is spoiled`);
      }
    }
  }

  private checkState(): void {
    const { model } = this;
    const expected = {
      numFree: model.numFree,
      inFlight: model.driverInFlight,
      tableBytes: model.tableBytes,
      taken: model.deviceInFlight,
      faults: [undefined, undefined, false, false],
      pending: this.waiting.length,
      notified: this.notified,
      interrupted: this.interrupted,
    };
    const [first, ...others] = this.worlds;
    const state = first.state;
    const { driver, device, ...rest } = state;
    same(rest, expected, first.name);
    const { tables, threshold, ...flat } = counts(driver) as Omit<DriverStats, 'errors'>;
    same(flat, model.driverStats, `${first.name}: driver.stats()`);
    same(tables, model.tableStats, `${first.name}: driver.stats().tables`);
    const { policy, ...limit } = threshold;
    same(limit, model.thresholdStats, `${first.name}: driver.stats().threshold, ${policy}`);
    same(counts(device), model.deviceStats, `${first.name}: device.stats()`);
    for (const world of others) same(world.state, state, `${world.name}, unlike ${first.name}`);
  }

  private checkBytes(): void {
    const [first, ...others] = this.worlds;
    const { bytes } = first;
    for (const world of others) {
      const other = world.bytes;
      if (Buffer.compare(bytes, other) === 0) continue;
      const at = bytes.findIndex((byte, i) => byte !== other[i]);
      throw new Error(
        `byte ${at} is ${bytes[at]} with ${first.name} and ${other[at]} with ${world.name}; ` +
          `${JSON.stringify({ areas: this.layout.areas, tables: this.layout.tables })}`,
      );
    }
  }

  step(choice: Choice): void {
    const op = this.concrete(choice);
    if (!op) return;
    try {
      this.respond(op);
      const predicted = this.predict(op);
      const outcomes = this.worlds.map((world) => world.run(op));
      const [first] = outcomes;
      outcomes.forEach((outcome, i) => {
        same(outcome, first, `${this.worlds[i].name}, unlike ${this.worlds[0].name}`);
      });
      const told =
        typeof first === 'object' && first !== null && 'refused' in first
          ? { refused: first.refused }
          : first;
      expect(JSON.stringify(told), 'unlike the model').to.equal(JSON.stringify(this.shown(predicted)));
      this.checkData(predicted);
      this.checkState();
      this.checkBytes();
      // A buffer that can never go in: the burst has to be cleared.
      if (op[0] === 'addBurst' && predicted instanceof Refused) this.step(['clearBurst', 0, 0, 0]);
    } catch (error) {
      if (error instanceof Error && !error.message.startsWith('after'))
        error.message = `after ${JSON.stringify(op)}: ${error.message}`;
      throw error;
    }
  }

  /** Lets everything in flight come back and sees that nothing is missing. */
  drain(): void {
    this.step(['clearBurst', 0, 0, 0]);
    for (let n = 0; this.model.deviceInFlight > 0 && n < this.size; n++) {
      // Slots filled in odd places, and elements without a slot: a reset is the only way out of the first.
      if (this.model.inHand.length === 0) break;
      this.step(['push', 0, 0, 0]);
      this.step(['fill', 0, 0, 0]);
      this.step(['flush', 1, 0, 0]);
    }
    this.step(['getBurst', 2, 0, 0]);
    this.step(['reset', 0, 0, 0]);
    expect(this.model.numFree).to.equal(this.size);
    expect(this.model.tableBytes).to.equal(0);
    expect(this.freeSlots).to.have.length(this.layout.slots);
  }
}

async function run(config: Config, choices: Choice[]): Promise<void> {
  const layout = new Layout(config);
  const worlds: World[] = [];
  for (const [driver, device] of PAIRINGS) worlds.push(await World.create(driver, device, config, layout));
  try {
    const run = new Run(config, layout, worlds);
    for (const choice of choices) run.step(choice);
    run.drain();
  } finally {
    for (const world of worlds) world.release();
  }
  for (const world of worlds) world.verify();
}

describe('both engines, in step', () => {
  it('do the same, and what the model says, whatever is asked of them', async function () {
    this.timeout(3600000);
    await fc.assert(
      fc.asyncProperty(configs, fc.array(choices, { maxLength: 150, size: 'max' }), run),
      runs(70),
    );
  });

  it('do so when the indices wrap', async function () {
    this.timeout(3600000);
    const rounds = 65536 / BURST.buffers;
    await fc.assert(
      fc.asyncProperty(
        configs.map((config) => ({ ...config, size: [8, 16, 32][config.granules % 3] })),
        fc.array(choices, { maxLength: 60, size: 'max' }),
        fc.nat(10),
        fc.array(choices, { maxLength: 150, size: 'max' }),
        async (config, before, short, after) =>
          run(config, [...before, ['reset', 0, 0, 0], ['cycles', rounds - 1 - short, 0, 0], ...after]),
      ),
      { numRuns: 4, endOnFailure: true },
    );
  });
});
