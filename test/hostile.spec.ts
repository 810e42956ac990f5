import { isDeepStrictEqual } from 'node:util';
import { expect } from 'chai';
import fc from 'fast-check';
import { VringError } from '../src/index.js';
import { PAIRINGS, runs, splitConfigs } from './support/choices.js';
import { forEachEngine } from './support/engines.js';
import {
  COMPLETIONS,
  type Config,
  ELEMENTS,
  type HostileOp,
  Layout,
  type Op,
  type RawRange,
  World,
} from './support/lockstep.js';
import { type RingAreas, SplitRing } from './support/split-ring.js';

/** An operation by name, and numbers that choose what it is done to. */
type Choice = [keyof typeof WEIGHTS, number, number, number];

const WEIGHTS = {
  addRaw: 14,
  kick: 3,
  getBuf: 6,
  getBurst: 8,
  moreUsed: 2,
  disableCallbacks: 1,
  enableCallbacks: 2,
  enableCallbacksDelayed: 2,
  pop: 10,
  popBurst: 12,
  push: 10,
  pushBurst: 6,
  fill: 5,
  flush: 4,
  unpop: 2,
  rewind: 3,
  detach: 2,
  availableBytes: 5,
  shouldInterrupt: 3,
  enableNotifications: 2,
  disableNotifications: 1,
  reset: 2,
  // The peer of the one side, the other, and whoever owns the memory.
  descriptor: 14,
  tableEntry: 6,
  avail: 12,
  used: 12,
};

const choices: fc.Arbitrary<Choice> = fc.tuple(
  fc.oneof(
    ...Object.entries(WEIGHTS).map(([kind, weight]) => ({
      weight,
      arbitrary: fc.constant(kind as keyof typeof WEIGHTS),
    })),
  ),
  fc.nat(0xffff),
  fc.nat(0xffff),
  fc.nat(0xffff),
);

const LENGTHS = [0, 1, 15, 16, 24, 32, 64, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1];

class Attack {
  /** Heads that some pop returned, the last one last. */
  private heads: number[] = [];
  private readonly counts: number[] = ELEMENTS.map(() => 0);

  constructor(
    private readonly config: Config,
    private readonly layout: Layout,
    private readonly worlds: World[],
  ) {}

  /** Mostly something inside, sometimes a border, sometimes nowhere. */
  private address(a: number): bigint {
    const { buffers, tables, guest, end } = this.layout;
    const inside = guest + BigInt((a >> 3) % buffers.length);
    switch (a & 7) {
      case 0:
        return BigInt(tables.address + 16 * ((a >> 3) % Math.max(1, this.config.granules)));
      case 1:
        return guest + BigInt(buffers.length) - BigInt((a >> 3) % 40);
      case 2:
        return BigInt.asUintN(64, -BigInt((a >> 3) % 40));
      case 3:
        return inside + (1n << BigInt(32 + ((a >> 3) % 31)));
      case 4:
        return BigInt(end - ((a >> 3) % 40));
      default:
        return inside;
    }
  }

  private length(b: number): number {
    return (b & 3) === 0 ? LENGTHS[(b >> 2) % LENGTHS.length] : (b >> 2) % 40;
  }

  private ranges(count: number, a: number, b: number): RawRange[] {
    return Array.from({ length: count }, (_, i) => {
      const address = this.address(a + i * 8);
      // A driver queue refuses what wraps; a hostile driver writes it to the descriptor.
      const length = Math.min(this.length(b + i * 4), Number(BigInt.asUintN(64, -address) || 2n ** 32n));
      return { address, length };
    });
  }

  private head(a: number): number {
    return this.heads.length > 0 && a % 8 !== 7
      ? this.heads[this.heads.length - 1 - (a % Math.min(this.heads.length, 3))]
      : a % (this.config.size + 1);
  }

  private poke(at: number, bytes: number, value: number | bigint): HostileOp {
    const data = Buffer.alloc(8);
    data.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value)));
    return ['poke', at, [...data.subarray(0, bytes)]];
  }

  /** One field of descriptor `index` of a table of `entries`. */
  private forge(table: number, entries: number, a: number, b: number, c: number): HostileOp {
    const at = table + 16 * ((a >> 2) % entries);
    switch (a & 3) {
      case 0:
        return this.poke(at, 8, this.address(b));
      case 1:
        return this.poke(at + 8, 4, this.length(b));
      case 2:
        return this.poke(at + 12, 2, c % 16 === 0 ? b : b & 7);
      default:
        return this.poke(at + 14, 2, c % 16 === 0 ? b : b % (entries + 1));
    }
  }

  private concrete([kind, a, b, c]: Choice): (Op | HostileOp)[] {
    const { areas, tables } = this.layout;
    const { size, granules } = this.config;
    const u16 = (at: number) => {
      const { bytes } = this.worlds[0];
      return bytes[at] | (bytes[at + 1] << 8);
    };
    switch (kind) {
      case 'addRaw': {
        const outs = a % 4;
        return [
          [kind, this.ranges(outs, b, c), this.ranges(outs === 0 ? 1 : (a >> 2) % 3, b >> 1, c >> 1), a],
        ];
      }
      case 'getBurst':
        return [[kind, a % COMPLETIONS.length]];
      case 'popBurst': {
        const i = a % ELEMENTS.length;
        return [[kind, i, b % (ELEMENTS[i].capacity + 1)]];
      }
      case 'push':
        return [[kind, this.head(a), b % 50]];
      case 'pushBurst': {
        const i = a % ELEMENTS.length;
        return [[kind, i, this.counts[i]]];
      }
      case 'fill':
        return [[kind, this.head(a), b % 50, c % 4]];
      case 'flush':
        return [[kind, a % 4]];
      case 'rewind':
        return [[kind, a % 5]];
      case 'unpop':
      case 'detach':
        return [[kind, this.head(a)]];
      case 'availableBytes':
        return [[kind, a % 4 === 0 ? 1e12 : a % 300, b % 4 === 0 ? 1e12 : b % 300]];
      case 'descriptor':
        return [this.forge(areas.descriptor, size, a, b, c)];
      case 'tableEntry':
        return granules === 0 ? [] : [this.forge(tables.address, granules, a, b, c)];
      case 'avail': {
        const idx = u16(areas.driver + 2);
        const ring = areas.driver + 4;
        // Mostly an entry that a driver could have added: then there is something to pop.
        if (a % 4 < 2)
          return [
            this.poke(ring + 2 * (idx % size), 2, c % 8 === 0 ? b : b % (size + (c % 8 === 1 ? 1 : 0))),
            this.poke(areas.driver + 2, 2, idx + 1),
          ];
        if (a % 4 === 2) return [this.poke(areas.driver + 2, 2, idx + (c % 4 === 0 ? b : b % (size + 2)))];
        return [this.poke(c & 1 ? areas.driver : ring + 2 * size, 2, b)];
      }
      case 'used': {
        const idx = u16(areas.device + 2);
        const ring = areas.device + 4;
        if (a % 4 < 2) {
          const at = ring + 8 * (idx % size);
          return [
            this.poke(at, 4, c % 8 === 0 ? b * 65536 : b % (size + (c % 8 === 1 ? 1 : 0))),
            this.poke(at + 4, 4, this.length(c >> 3)),
            this.poke(areas.device + 2, 2, idx + 1),
          ];
        }
        if (a % 4 === 2) return [this.poke(areas.device + 2, 2, idx + (c % 4 === 0 ? b : b % (size + 2)))];
        return [this.poke(c & 1 ? areas.device : ring + 8 * size, 2, b)];
      }
      default:
        return [[kind]];
    }
  }

  step(choice: Choice): void {
    for (const op of this.concrete(choice)) {
      try {
        this.operate(op);
      } catch (error) {
        if (error instanceof Error) error.message = `after ${show(op)}: ${error.message}`;
        throw error;
      }
    }
  }

  private operate(op: Op | HostileOp): void {
    const [first, ...others] = this.worlds;
    const outcome = first.run(op);
    for (const world of others) same(world.run(op), outcome, world, first);
    this.note(op, outcome);

    const { state, bytes } = first;
    // Whatever the driver says: the ring has no more entries than that.
    expect(state.taken).to.be.at.most(this.config.size);
    expect(state.inFlight).to.be.at.most(this.config.size);
    expect(state.numFree).to.be.within(0, this.config.size);
    for (const world of others) {
      same(world.state, state, world, first);
      const at =
        Buffer.compare(world.bytes, bytes) === 0 ? -1 : bytes.findIndex((b, i) => b !== world.bytes[i]);
      if (at >= 0) throw new Error(`byte ${at} is ${bytes[at]} with ${first.name}, not with ${world.name}`);
    }
  }

  private note([kind, i]: Op | HostileOp, outcome: unknown): void {
    if (kind === 'reset') this.heads = [];
    if (kind !== 'pop' && kind !== 'popBurst') return;
    if (!Array.isArray(outcome)) return;
    if (kind === 'popBurst') this.counts[i as number] = outcome.length;
    for (const { id, out, in: in_ } of outcome) {
      this.heads.push(id);
      for (const { address, length } of [...out, ...in_])
        if (address + length > this.layout.end)
          throw new Error(`piece at ${address}, length ${length}, is outside every region`);
      // Also into the ring, if that is where the driver wants it.
      for (const world of this.worlds) world.respond(in_, id, 40);
    }
    this.heads = this.heads.slice(-this.config.size);
  }
}

const show = (value: unknown) =>
  JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? `0x${v.toString(16)}` : v));

function same(actual: unknown, expected: unknown, world: World, first: World): void {
  if (!isDeepStrictEqual(actual, expected))
    expect(show(actual), `${world.name}, unlike ${first.name}`).to.equal(show(expected));
}

async function run(config: Config, choices: Choice[]): Promise<void> {
  const layout = new Layout(config);
  const worlds: World[] = [];
  for (const [driver, device] of PAIRINGS) worlds.push(await World.create(driver, device, config, layout));
  try {
    const attack = new Attack(config, layout, worlds);
    for (const choice of choices) attack.step(choice);
    // However broken: after a reset it is a queue again.
    attack.step(['reset', 0, 0, 0]);
    const driverData = [{ address: BigInt(layout.guest), length: 3 }];
    const fine: (Op | HostileOp)[] = [['addRaw', driverData, [], 1], ['pop'], ['push', 0, 0], ['getBuf']];
    for (const world of worlds) {
      for (const op of fine) world.run(op);
      expect(world.state.faults, world.name).to.deep.equal([undefined, undefined, false, false]);
      expect(world.state.numFree, world.name).to.equal(config.size);
      expect(world.state.driver.completed, world.name).to.be.above(0);
    }
  } finally {
    for (const world of worlds) world.release();
  }
}

// The piece arrays of `ELEMENTS` are what this is about: rare in random runs, so here by hand.
describe('a bad chain with more pieces than there is room for', () => {
  forEachEngine((load) => {
    it('is bad, not too large', async () => {
      const host = await load({ size: 2 ** 16 });
      const ring: RingAreas = { descriptor: host.alloc(128), driver: host.alloc(22), device: host.alloc(70) };
      const device = host.deviceQueue({ ring: 'split', size: 8, areas: ring });
      const peer = new SplitRing(host, ring, 8);
      const segment = { addr: 4096, len: 1 };
      peer.offer([segment, segment, segment, { addr: 2 ** 40, len: 1 }]);
      const elements = device.createElements(1, 2);
      expect(() => device.popBurst(elements)).to.throw(
        VringError,
        'EFAULT: the queue is broken: segment at 0x10000000000',
      );
    });
  });
});

describe('both engines under a hostile peer', () => {
  it('see the same faults, stay in their regions, and recover', async function () {
    this.timeout(3600000);
    await fc.assert(
      fc.asyncProperty(
        splitConfigs.map((config) => ({ ...config, fenced: true })),
        fc.array(choices, { maxLength: 120, size: 'max' }),
        run,
      ),
      runs(80),
    );
  });
});
