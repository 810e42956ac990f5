// One test for each normative statement about packed virtqueues (virtio 1.4, 2.8), and those about queue
// reset, cleanup and reserved features that meet a packed ring, on both engines. What a queue did is read from
// the bytes of the ring, and the other side is played by hand. Statements about what another thread may see
// are in order.spec.ts.

import { expect } from 'chai';
import fc from 'fast-check';
import {
  type DeviceQueue,
  type DeviceQueueOptions,
  type DriverQueue,
  type DriverQueueOptions,
  type Element,
  Feature,
  type Host,
} from '../../src/index.js';
import {
  type Added,
  AREAS,
  DATA,
  GUEST,
  guestBytes,
  loadBeside,
  operation,
  refuses,
  type Segment,
  TABLES,
} from '../support/conformance.js';
import { forEachEngine, type Load } from '../support/engines.js';
import { PackedPeer, type Taken } from '../support/packed-peer.js';
import { AVAIL, DESC, DISABLE, ENABLE, INDIRECT, NEXT, USED, WRAP, WRITE } from '../support/packed-ring.js';

const { EVENT_IDX, INDIRECT_DESC, IN_ORDER } = Feature;

// A packed ring may have any size: one, odd ones, powers of two.
const SIZES = [1, 2, 3, 5, 8, 13];

function createDriver(engine: Host, options: Partial<DriverQueueOptions> = {}) {
  const size = options.size ?? 8;
  const kicks = { count: 0 };
  const driver = engine.driverQueue({
    ring: 'packed',
    areas: AREAS,
    indirect: { memory: TABLES },
    notify: () => {
      kicks.count++;
    },
    ...options,
    size,
  });
  return { driver, ring: new PackedPeer(engine, driver.areas, size), kicks };
}

function createDevice(engine: Host, options: Partial<DeviceQueueOptions> = {}) {
  const size = options.size ?? 8;
  new Uint8Array(engine.buffer).fill(0, 0, GUEST);
  const interrupts = { count: 0 };
  const device = engine.deviceQueue({
    ring: 'packed',
    areas: AREAS,
    interrupt: () => {
      interrupts.count++;
    },
    ...options,
    size,
  });
  return { device, ring: new PackedPeer(engine, AREAS, size), interrupts };
}

/** Every position in a ring of this size, in both laps. */
const positions = (size: number): number[] =>
  [0, WRAP].flatMap((wrap) => Array.from({ length: size }, (_, slot) => slot | wrap));

const sum = (lengths: number[]): number => lengths.reduce((total, length) => total + length, 0);

/** As much of a buffer as half of a queue holds, so that the queue takes several. */
function clip([out, in_]: [out: Segment[], in_: Segment[]], size: number): Added {
  const most = Math.ceil(size / 2);
  const first = out.slice(0, most);
  return { out: first, in: in_.slice(0, most - first.length) };
}

/** A list as the raw device took it, and what was added. */
interface Listed extends Taken {
  added: Added;
  token: number;
  /** Bytes of its table as they were when it was taken. */
  table: Uint8Array | undefined;
}

interface Churn {
  driver: DriverQueue;
  ring: PackedPeer;
  /** Bytes of the ring before the last operation of the driver, and the slots that were not free then. */
  before: Uint8Array;
  busy: ReadonlySet<number>;
  /** Lists that the last operation made available. */
  fresh: Listed[];
  /** Buffers that are with the device. */
  exposed: Map<number, Listed>;
}

/**
 * Runs a driver queue through random operations against a device played by hand, and `check` after each.
 * The device takes each list when it appears, and uses buffers in any order; with IN_ORDER in theirs, and
 * several with one used descriptor. Returns how many buffers were added in all.
 */
async function churn(
  load: Load,
  features: Feature[],
  check: (state: Churn) => void,
  options: Partial<DriverQueueOptions> = {},
): Promise<number> {
  const engine = await loadBeside(load);
  const inOrder = features.includes(IN_ORDER);
  let total = 0;
  fc.assert(
    fc.property(
      fc.constantFrom(...SIZES),
      fc.array(operation, { minLength: 20, maxLength: 60, size: 'max' }),
      (size, operations) => {
        const { driver, ring } = createDriver(engine, { ...options, features, size });
        const burst = driver.createBurst(8, 128);
        const exposed = new Map<number, Listed>();
        const state: Churn = {
          driver,
          ring,
          before: ring.descriptorBytes,
          busy: new Set(),
          fresh: [],
          exposed,
        };
        /** Used and not yet got. */
        const used: { token: number; length: number; slots: number }[] = [];
        let tail = WRAP;
        let held = 0;
        let token = 0;
        const use = (n: number, whole: boolean) => {
          const lists = inOrder
            ? [...exposed.values()].slice(0, 1 + (n % exposed.size))
            : [[...exposed.values()][n % exposed.size]];
          const batch = lists.map(({ added, slots, token, id }, i) => {
            exposed.delete(id);
            const writable = sum(added.in.map(({ length }) => length));
            const length = whole || i < lists.length - 1 ? writable : Math.min(writable, n % 2048);
            return { token, length, slots: slots.length };
          });
          const last = batch[batch.length - 1];
          ring.use(lists[lists.length - 1].id, last.length, sum(batch.map(({ slots }) => slots)));
          used.push(...batch);
        };
        try {
          for (const step of operations) {
            const asked: { added: Added; token: number }[] = [];
            if ('use' in step && exposed.size > 0) use(step.use, step.use % 3 === 0);
            state.before = ring.descriptorBytes;
            state.busy = new Set(Array.from({ length: held }, (_, i) => ((tail & 0x7fff) + i) % size));
            if ('add' in step) {
              const added = clip(step.add, size);
              if (driver.add(added.out, added.in, token)) asked.push({ added, token });
              token++;
            } else if ('burst' in step) {
              const waiting: typeof asked = [];
              for (const buffer of step.burst) {
                const added = clip(buffer, size);
                for (const { address, length } of added.out) burst.out(address, length);
                for (const { address, length } of added.in) burst.in(address, length);
                burst.end(token);
                waiting.push({ added, token: token++ });
              }
              asked.push(...waiting.slice(0, driver.addBurst(burst)));
              burst.clear();
            } else if ('call' in step) {
              const got = driver[step.call]();
              if (typeof got === 'object') {
                const expected = used.shift();
                expect(got).to.deep.equal({ token: expected?.token, length: expected?.length });
                tail = ring.after(tail, expected?.slots ?? 0);
                held -= expected?.slots ?? 0;
              }
            }
            state.fresh = [];
            for (let list = ring.take(); list !== undefined; list = ring.take()) {
              const of = asked.shift();
              if (of === undefined) return expect.fail('a list that was not added');
              const { addr, len, flags } = list.list[0];
              const table = flags & INDIRECT ? ring.bytes(Number(addr), len) : undefined;
              state.fresh.push({ ...list, ...of, table });
              exposed.set(list.id, state.fresh[state.fresh.length - 1]);
              held += list.slots.length;
              total++;
            }
            expect(asked, 'added, but not in the ring').to.deep.equal([]);
            check(state);
          }
        } finally {
          burst.free();
          driver.release();
        }
      },
    ),
    { numRuns: 20 },
  );
  return total;
}

/** Uses and gets `n` buffers of one descriptor, so that the ring stands `n` slots further on. */
function moveOn({ driver, ring }: ReturnType<typeof createDriver>, n: number): void {
  for (let i = 0; i < n; i++) {
    driver.add([{ address: DATA, length: 1 }], [], 0);
    const list = ring.take();
    if (list !== undefined) ring.use(list.id, 0, 1);
    if (driver.getBuf() === undefined) expect.fail('nothing came back');
  }
}

forEachEngine((load) => {
  describe('packed driver', () => {
    it('lays its parts at multiples of 16, 4 and 4 [packed-driver-align]', async () => {
      const engine = await load();
      for (const size of [...SIZES, 255, 256, 1000, 32767, 32768]) {
        // Whatever was allocated before.
        const odd = engine.alloc(1 + (size % 7), 1);
        const { areas } = engine.driverQueue({ ring: 'packed', size });
        expect([areas.descriptor % 16, areas.driver % 4, areas.device % 4], `size ${size}`).to.deep.equal([
          0, 0, 0,
        ]);
        engine.free(odd);
      }
    });

    it('refuses parts that are not aligned [packed-driver-align]', async () => {
      const engine = await loadBeside(load);
      const unaligned: [Partial<typeof AREAS>, string][] = [
        [{ descriptor: AREAS.descriptor + 8 }, 'areas.descriptor must be a multiple of 16'],
        [{ driver: AREAS.driver + 2 }, 'areas.driver must be a multiple of 4'],
        [{ device: AREAS.device + 2 }, 'areas.device must be a multiple of 4'],
      ];
      for (const [wrong, message] of unaligned) {
        const areas = { ...AREAS, ...wrong };
        expect(refuses(() => createDriver(engine, { areas }), 'EINVAL')).to.include(message);
        expect(refuses(() => createDevice(engine, { areas }), 'EINVAL')).to.include(message);
      }
      const { driver } = createDriver(engine, {
        areas: { descriptor: AREAS.descriptor + 16, driver: AREAS.driver + 4, device: AREAS.device + 4 },
      });
      expect(driver.areas.device).to.equal(AREAS.device + 4);
    });

    it('starts with a ring of zeros and events enabled, whatever was in the memory', async () => {
      const engine = await loadBeside(load);
      for (const features of [[], [EVENT_IDX]]) {
        new Uint8Array(engine.buffer).fill(0xff, 0, GUEST);
        const { driver, ring } = createDriver(engine, { features });
        for (const bytes of [ring.descriptorBytes, ring.driverBytes, ring.deviceBytes])
          expect(bytes.every((byte) => byte === 0)).to.equal(true);
        driver.release();
      }
    });

    for (const [kind, features] of [
      ['direct', []],
      ['indirect', [INDIRECT_DESC]],
      ['in order', [IN_ORDER]],
    ] as const) {
      it(`changes no slot that is not free, and of the free ones those of the list only, ${kind} [packed-driver-used-changed] [packed-driver-after-avail] [packed-driver-space]`, async () => {
        let full = 0;
        const added = await churn(load, [...features], ({ ring, before, busy, fresh }) => {
          const slots = fresh.flatMap((list) => list.slots);
          expect(new Set([...busy, ...slots]).size).to.equal(busy.size + slots.length);
          expect(slots).to.include.members(ring.changedSince(before));
          if (busy.size === ring.size) full++;
        });
        expect(added).to.be.above(60);
        expect(full).to.be.above(0);
      });

      it(`leaves the entries of exposed buffers alone, ${kind} [cleanup-driver-exposed]`, async () => {
        let kept = 0;
        await churn(load, [...features], ({ ring, before, busy, exposed }) => {
          // The device has read the lists; their slots are its own, until used descriptors stand for as many.
          expect(ring.changedSince(before).filter((slot) => busy.has(slot))).to.deep.equal([]);
          for (const { table, list } of exposed.values()) {
            if (table === undefined) continue;
            expect(ring.bytes(Number(list[0].addr), table.length)).to.deep.equal(table);
          }
          if (kind !== 'indirect') kept += busy.size;
          else for (const { table } of exposed.values()) kept += table?.length ?? 0;
        });
        expect(kept).to.be.above(0);
      });
    }

    it('writes to no slot until it sees USED change [packed-driver-used-changed]', async () => {
      const engine = await loadBeside(load);
      for (const lap of [0, 1]) {
        const queue = createDriver(engine, { size: 5 });
        const { driver, ring } = queue;
        moveOn(queue, 5 * lap);
        const out = (count: number) => Array.from({ length: count }, () => ({ address: DATA, length: 1 }));
        for (const [token, count] of [2, 1, 2].entries())
          expect(driver.add(out(count), [], token)).to.equal(true);
        const lists = Array.from({ length: 3 }, () => ring.take() as Taken);
        // Of an id and a length alone the driver sees nothing, nor of AVAIL.
        const { flags, addr } = ring.desc(0);
        for (const avail of [0, AVAIL]) {
          ring.setDesc(0, { addr, len: 1, id: lists[1].id, flags: (flags & USED) | avail });
          const before = ring.descriptorBytes;
          for (let i = 0; i < 3; i++) {
            expect(driver.add(out(1), [], 9)).to.equal(false);
            expect(driver.getBuf()).to.equal(undefined);
            expect(driver.moreUsed()).to.equal(false);
            driver.kick();
            driver.disableCallbacks();
            expect(driver.enableCallbacks()).to.equal(true);
          }
          expect(ring.descriptorBytes).to.deep.equal(before);
          expect(driver.numFree).to.equal(0);
        }
        // One used descriptor at the first slot: as many slots are free as the list of its buffer had.
        ring.use(lists[1].id, 0, 1);
        expect(driver.getBuf()).to.deep.equal({ token: 1, length: 0 });
        const before = ring.descriptorBytes;
        expect(driver.add(out(2), [], 9)).to.equal(false);
        expect(ring.descriptorBytes).to.deep.equal(before);
        expect(driver.add(out(1), [], 9)).to.equal(true);
        expect(ring.changedSince(before)).to.deep.equal([0]);
        expect(driver.broken).to.equal(false);
        driver.release();
      }
    });

    it('writes nothing of a list that does not fit [packed-driver-space]', async () => {
      const engine = await loadBeside(load);
      const part = { address: DATA, length: 1 };
      for (const features of [[], [INDIRECT_DESC], [IN_ORDER]]) {
        for (let start = 0; start < 10; start++) {
          const queue = createDriver(engine, { size: 5, features, indirect: { memory: 0 } });
          const { driver, ring } = queue;
          moveOn(queue, start);
          for (let free = 4; free >= 0; free--) {
            expect(driver.add([part], [], 5 - free)).to.equal(true);
            const before = guestBytes(engine);
            const list = Array.from({ length: free + 1 }, () => part);
            expect(driver.add(list, [], 8)).to.equal(false);
            const burst = driver.createBurst(2, 12);
            for (const segment of list) burst.in(segment.address, segment.length);
            burst.end(9);
            expect(driver.addBurst(burst)).to.equal(0);
            expect(burst.pending).to.equal(1);
            burst.free();
            expect(Buffer.compare(guestBytes(engine), before)).to.equal(0);
          }
          for (let i = 0; i < 5; i++) expect(ring.take()?.slots).to.deep.equal([(start + i) % 5]);
          expect(ring.take()).to.equal(undefined);
          driver.release();
        }
      }
    });

    it('ends every list that it begins, with a device that uses nothing [packed-driver-no-dependence]', async () => {
      const engine = await loadBeside(load);
      const counts = fc.array(fc.integer({ min: 1, max: 13 }), { minLength: 1, maxLength: 20 });
      let refused = 0;
      fc.assert(
        fc.property(
          fc.constantFrom(...SIZES),
          fc.nat({ max: 25 }),
          counts,
          fc.boolean(),
          (size, start, list, atOnce) => {
            const queue = createDriver(engine, { size });
            const { driver, ring } = queue;
            moveOn(queue, start % (2 * size));
            const burst = driver.createBurst(list.length, 300);
            let room = size;
            const expected: number[] = [];
            const lists = list.filter((count) => count <= size);
            for (const count of lists) {
              for (let i = 0; i < count; i++) burst.out(DATA, 1);
              burst.end(0);
              // In a burst nothing comes past a list that does not fit.
              if (count <= room) expected.push(count);
              else if (atOnce) break;
              room -= count <= room ? count : 0;
              if (atOnce) continue;
              driver.addBurst(burst);
              burst.clear();
            }
            if (atOnce) expect(driver.addBurst(burst)).to.equal(expected.length);
            // `take` throws where a list is not whole.
            for (const count of expected) expect(ring.take()?.slots).to.have.lengthOf(count);
            expect(ring.take()).to.equal(undefined);
            expect(driver.numFree).to.equal(room);
            if (expected.length < lists.length) refused++;
            burst.free();
            driver.release();
          },
        ),
        { numRuns: 100 },
      );
      expect(refused).to.be.above(0);
    });

    it('gives a buffer a descriptor for each segment and no more, so that limits of the caller hold [packed-driver-list-allowed] [packed-driver-chain-allowed]', async () => {
      for (const features of [[], [INDIRECT_DESC]]) {
        let long = 0;
        await churn(load, features, ({ fresh }) => {
          for (const { added, elements } of fresh) {
            const found = elements.map(({ addr, len }) => ({ address: addr, length: len }));
            expect(found).to.deep.equal([...added.out, ...added.in]);
            if (found.length > 3) long++;
          }
        });
        expect(long).to.be.above(0);
      }
    });

    it('adds no list longer than the queue [packed-driver-list-length] [packed-driver-chain-allowed]', async () => {
      const engine = await loadBeside(load);
      for (const features of [[], [INDIRECT_DESC], [IN_ORDER]]) {
        for (const size of SIZES) {
          const { driver, ring } = createDriver(engine, { size, features });
          const segments = Array.from({ length: size + 1 }, (_, i) => ({ address: DATA + i, length: 1 }));
          refuses(() => driver.add(segments, [], 1), 'EINVAL');
          refuses(() => driver.add([], segments, 1), 'EINVAL');
          const burst = driver.createBurst(1, size + 1);
          for (const { address, length } of segments) burst.out(address, length);
          burst.end(1);
          refuses(() => driver.addBurst(burst), 'EINVAL');
          expect(ring.descriptorBytes.every((byte) => byte === 0)).to.equal(true);
          // As long as the queue is allowed.
          expect(driver.add(segments.slice(1), [], 1)).to.equal(true);
          expect(ring.take()?.elements).to.have.lengthOf(size);
          driver.release();
          burst.free();
        }
      }
    });

    it('adds no list that loops [packed-driver-list-length]', async () => {
      // `take` throws where a list comes to no end within the ring.
      let wrapped = 0;
      await churn(load, [], ({ ring, fresh }) => {
        for (const { slots } of fresh) {
          expect(new Set(slots).size).to.equal(slots.length);
          if (slots.includes(0) && slots.includes(ring.size - 1) && slots[0] !== 0) wrapped++;
        }
      });
      expect(wrapped).to.be.above(0);
    });

    for (const features of [[], [INDIRECT_DESC]]) {
      const kind = features.length > 0 ? 'indirect' : 'direct';

      it(`puts readable elements before writable ones, ${kind} [packed-driver-order]`, async () => {
        let mixed = 0;
        await churn(load, features, ({ fresh }) => {
          for (const { added, elements } of fresh) {
            const writable = elements.map(({ flags }) => (flags & WRITE) !== 0);
            expect(writable).to.deep.equal([...added.out.map(() => false), ...added.in.map(() => true)]);
            if (added.out.length > 0 && added.in.length > 0) mixed++;
          }
        });
        expect(mixed).to.be.above(0);
      });
    }

    it('refuses records written by hand that break a rule [packed-driver-order] [packed-driver-indirect-negotiated] [packed-driver-indirect-flags] [packed-driver-indirect-next]', async () => {
      const engine = await loadBeside(load);
      const { driver, ring } = createDriver(engine, { features: [INDIRECT_DESC] });
      const burst = driver.createBurst(2, 16);
      /** One buffer; of each record the flags. */
      const write = (...flags: number[]) => {
        flags.forEach((own, i) => {
          const more = i < flags.length - 1 ? NEXT : 0;
          burst.words.set([DATA, 0, 16, own | more | (i === 0 ? flags.length << 16 : 0)], 4 * i);
        });
        burst.tokens[0] = 1;
      };
      const bad: [string, number[]][] = [
        ['readable after writable', [WRITE, 0]],
        ['an indirect table', [INDIRECT]],
        ['an indirect table that goes on', [INDIRECT, 0]],
        ['an indirect table at the end of a list', [0, INDIRECT]],
        ['AVAIL', [AVAIL]],
        ['USED in a table', [0, USED]],
      ];
      for (const [what, flags] of bad) {
        write(...flags);
        refuses(() => burst.commit(1), 'EINVAL');
        expect(burst.pending, what).to.equal(0);
        expect(driver.addBurst(burst), what).to.equal(0);
      }
      expect(ring.descriptorBytes.every((byte) => byte === 0)).to.equal(true);
      write(0, WRITE);
      burst.commit(1);
      expect(driver.addBurst(burst)).to.equal(1);
      expect(ring.take()?.elements.map(({ flags }) => flags)).to.deep.equal([0, WRITE]);
    });

    it('passes addresses on as they are [reserved-driver-physical]', async () => {
      const engine = await loadBeside(load);
      const { driver, ring } = createDriver(engine);
      const addresses = [0n, 1n, 0xffff_ffffn, 0x1_0000_0000n, 0x8000_0000_0000_0000n, 2n ** 64n - 1n];
      addresses.forEach((address, i) => {
        expect(driver.add([{ address, length: 1 }], [], i)).to.equal(true);
        expect(ring.take()?.elements[0].addr).to.equal(address);
      });
    });

    it('sets INDIRECT only where it was negotiated [packed-driver-indirect-negotiated]', async () => {
      let tables = 0;
      const look = (allowed: boolean) => (state: Churn) => {
        for (const { list } of state.fresh) {
          for (const { flags } of list) {
            if (!(flags & INDIRECT)) continue;
            expect(allowed).to.equal(true);
            tables++;
          }
        }
      };
      await churn(load, [], look(false));
      await churn(load, [EVENT_IDX], look(false), { indirect: { policy: 'always', memory: TABLES } });
      expect(tables).to.equal(0);
      await churn(load, [INDIRECT_DESC], look(true));
      expect(tables).to.be.above(0);
    });

    it('sets no flag but WRITE in a table [packed-driver-indirect-flags]', async () => {
      const seen = new Set<number>();
      await churn(load, [INDIRECT_DESC], ({ fresh }) => {
        for (const { table, elements } of fresh)
          if (table !== undefined) for (const { flags } of elements) seen.add(flags);
      });
      expect([...seen]).to.have.members([0, WRITE]);
    });

    it('puts INDIRECT into no list that NEXT links [packed-driver-indirect-next]', async () => {
      // With room for few tables, so that lists and tables lie side by side.
      const seen = { tables: 0, lists: 0 };
      await churn(
        load,
        [INDIRECT_DESC],
        ({ fresh }) => {
          for (const { list } of fresh) {
            if (list.length > 1) seen.lists++;
            for (const { flags } of list) {
              if (!(flags & INDIRECT)) continue;
              expect(list).to.have.lengthOf(1);
              seen.tables++;
            }
          }
        },
        { indirect: { memory: { address: TABLES.address, length: 16 * 8 } } },
      );
      expect(seen.tables).to.be.above(0);
      expect(seen.lists).to.be.above(0);
    });

    it('names the next descriptor with a notification [packed-driver-notification]', async () => {
      for (const features of [[], [INDIRECT_DESC]]) {
        const laps = new Set<number>();
        await churn(load, features, ({ driver, ring }) => {
          // The raw device has taken all that is available: it stands at what will be next.
          expect(driver.notificationData(5)).to.equal((5 | (ring.taken << 16)) >>> 0);
          laps.add(ring.taken & WRAP);
        });
        expect([...laps]).to.have.members([0, WRAP]);
      }
    });

    it('names it again with a notification for nothing new [packed-driver-notification]', async () => {
      const engine = await loadBeside(load);
      const seen: number[] = [];
      const { driver } = createDriver(engine, {
        size: 3,
        notify: (queue) => seen.push(queue.notificationData(0xffff)),
      });
      const next = (slot: number, wrap: number) => (0xffff | (slot << 16) | (wrap << 31)) >>> 0;
      driver.add([{ address: DATA, length: 1 }], [], 1);
      for (let i = 0; i < 3; i++) driver.kick();
      driver.add([{ address: DATA, length: 1 }], [{ address: DATA, length: 1 }], 2);
      driver.kick();
      driver.kick();
      expect(seen).to.deep.equal([next(1, 1), next(1, 1), next(1, 1), next(0, 0), next(0, 0)]);
      for (const index of [-1, 0x10000, 0.5, Number.NaN])
        refuses(() => driver.notificationData(index), 'EINVAL');
    });

    it('gives exposed buffers back on a reset only, each once [cleanup-driver-not-live]', async () => {
      const engine = await loadBeside(load);
      for (const features of [[], [INDIRECT_DESC]]) {
        const { driver, ring } = createDriver(engine, { features });
        for (let token = 0; token < 4; token++) {
          driver.add([{ address: DATA, length: 1 }], [{ address: DATA, length: 1 }], token);
        }
        const lists = Array.from({ length: 4 }, () => ring.take() as Taken);
        ring.use(lists[2].id, 0, lists[2].slots.length);
        expect(driver.getBuf()?.token).to.equal(2);
        for (let i = 0; i < 4; i++) {
          expect(driver.getBuf()).to.equal(undefined);
          driver.enableCallbacks();
          expect(driver.inFlight).to.equal(3);
        }
        expect(driver.reset()).to.have.members([0, 1, 3]);
        expect(driver.inFlight).to.equal(0);
        expect(driver.numFree).to.equal(8);
        expect(driver.reset()).to.deep.equal([]);
        driver.release();
      }
    });

    it('keeps to the values of its event suppression structure', async () => {
      for (const [features, allowed] of [
        [[], [ENABLE, DISABLE]],
        [[EVENT_IDX], [ENABLE, DISABLE, DESC]],
      ] as const) {
        const seen = new Set<number>();
        await churn(load, [...features], ({ ring }) => {
          const { flags, offWrap } = ring.driverEvent;
          seen.add(flags);
          if (flags === DESC) expect(offWrap & 0x7fff).to.be.below(ring.size);
        });
        // The reserved bits are part of what was read.
        expect([...seen]).to.have.members([...allowed]);
      }
    });

    it('notifies as the event suppression structure of the device says', async () => {
      const engine = await loadBeside(load);
      for (const size of [1, 4, 5]) {
        const queue = createDriver(engine, { features: [EVENT_IDX], size });
        const { driver, ring } = queue;
        const burst = driver.createBurst(size);
        /** Adds `n` buffers at once, and says whether the device was notified. They come back. */
        const addAndKick = (n: number) => {
          for (let i = 0; i < n; i++) burst.out(DATA, 1).end(i);
          driver.addBurst(burst);
          const kicked = driver.kick();
          for (let i = 0; i < n; i++) ring.use((ring.take() as Taken).id, 0, 1);
          while (driver.getBuf() !== undefined);
          return kicked;
        };
        for (const start of positions(size)) {
          for (let n = 1; n <= size; n++) {
            for (const offWrap of positions(size)) {
              while (ring.taken !== start) moveOn(queue, 1);
              driver.kick();
              const passed = Array.from({ length: n }, (_, i) => ring.after(start, i));
              const named = passed.includes(offWrap);
              ring.deviceEvent = { offWrap, flags: DESC };
              expect(addAndKick(n), `${n} from ${start}, event at ${offWrap}`).to.equal(named);
              ring.deviceEvent = { offWrap, flags: named ? DISABLE : ENABLE };
              expect(addAndKick(n), `flags ${ring.deviceEvent.flags}`).to.equal(!named);
            }
          }
        }
        burst.free();
        driver.release();
      }
    });

    it('notifies for all that is new where DESC is not allowed', async () => {
      const engine = await loadBeside(load);
      const queue = createDriver(engine, { size: 4 });
      for (let i = 0; i < 16; i++) {
        queue.ring.deviceEvent = { offWrap: (i % 4) | (i & 8 ? WRAP : 0), flags: DESC };
        queue.driver.add([{ address: DATA, length: 1 }], [], i);
        expect(queue.driver.kick()).to.equal(true);
        queue.ring.use((queue.ring.take() as Taken).id, 0, 1);
        queue.driver.getBuf();
      }
    });
  });

  describe('packed device', () => {
    interface Part {
      addr: number;
      len: number;
      write: boolean;
    }

    /** A buffer that the raw driver made available. */
    interface Offered {
      id: number;
      parts: Part[];
      slots: number;
    }

    const writable = ({ parts }: Offered): number => sum(parts.map(({ len, write }) => (write ? len : 0)));

    /** Pieces as the device should see them. */
    const pieces = (parts: Part[], write: boolean) =>
      parts.filter((part) => part.write === write).map(({ addr, len }) => ({ address: addr, length: len }));

    const turn = fc.record({
      offer: fc.array(fc.tuple(fc.nat({ max: 3 }), fc.nat({ max: 3 }), fc.boolean(), fc.nat()), {
        maxLength: 4,
      }),
      pop: fc.nat({ max: 4 }),
      putBack: fc.boolean(),
      push: fc.array(fc.nat(), { maxLength: 4 }),
      how: fc.constantFrom('push', 'pushBurst', 'flush'),
      look: fc.boolean(),
    });

    interface Served {
      device: DeviceQueue;
      ring: PackedPeer;
      /** Bytes of the ring before the last call of the device, and slots that it may have written to. */
      before: Uint8Array;
      heads: number[];
      /** Since the start: buffers as offered, as popped, as pushed, and as the driver saw them used. */
      offered: Offered[];
      popped: { id: number; out: Element['out']; in: Element['in'] }[];
      pushed: { id: number; written: number }[];
      used: { id: number; length: number }[];
      /** Used descriptors that stood for more than one buffer. */
      batches: number;
    }

    /**
     * Runs a device queue against a driver played by hand, which makes buffers available under ids in any
     * order and collects what is used. Calls `check` after each turn, or once at the end of each run.
     */
    async function serve(
      features: Feature[],
      when: 'each turn' | 'at the end',
      check: (state: Served) => void,
    ): Promise<void> {
      const engine = await loadBeside(load);
      const inOrder = features.includes(IN_ORDER);
      fc.assert(
        fc.property(
          fc.constantFrom(...SIZES),
          fc.array(turn, { minLength: 10, maxLength: 30, size: 'max' }),
          (size, turns) => {
            const { device, ring } = createDevice(engine, { size, features });
            const elements = device.createElements(4);
            const state: Served = {
              device,
              ring,
              before: ring.descriptorBytes,
              heads: [],
              offered: [],
              popped: [],
              pushed: [],
              used: [],
              batches: 0,
            };
            const ids = Array.from({ length: size }, (_, id) => id);
            /** With the device or on the way to it, in ring order. */
            const out: Offered[] = [];
            const flying: Element[] = [];
            const take = (element: Element | undefined) => {
              if (element === undefined) return false;
              flying.push(element);
              state.popped.push(element);
              return true;
            };
            try {
              for (const { offer, pop, putBack, push, how, look } of turns) {
                for (const [reads, writes, indirect, pick] of offer) {
                  const count = Math.min(size, Math.max(1, reads + writes));
                  const slots = indirect && features.includes(INDIRECT_DESC) ? 1 : count;
                  if (ids.length === 0 || slots > size - sum(out.map((buffer) => buffer.slots))) break;
                  const [id] = ids.splice(pick % ids.length, 1);
                  const parts = Array.from({ length: count }, (_, i) => ({
                    addr: DATA + 512 * id + 64 * i,
                    len: 1 + ((pick + i) % 64),
                    write: i >= reads,
                  }));
                  if (slots === count) ring.offerList(parts, id);
                  else ring.offerTable(parts, id, TABLES.address + 128 * id);
                  const buffer = { id, parts, slots };
                  out.push(buffer);
                  state.offered.push(buffer);
                }
                state.before = ring.descriptorBytes;
                if (look) device.availableBytes(1000, 1000);
                if (pop > 2) {
                  const got = device.popBurst(elements);
                  for (let i = 0; i < got; i++) {
                    const first = elements.first(i);
                    const piece = (n: number) => ({
                      address: elements.address(n),
                      length: elements.length(n),
                    });
                    const outs = Array.from({ length: elements.outCount(i) }, (_, k) => piece(first + k));
                    const ins = Array.from({ length: elements.inCount(i) }, (_, k) =>
                      piece(first + outs.length + k),
                    );
                    take({ id: elements.id(i), out: outs, in: ins });
                  }
                } else for (let i = 0; i < pop && take(device.pop()); i++);
                const last = state.popped[state.popped.length - 1];
                if (putBack && last !== undefined && flying.includes(last)) {
                  device.unpop(last);
                  flying.splice(flying.indexOf(last), 1);
                  state.popped.pop();
                }
                const done = push.flatMap((n) =>
                  flying.length > 0 ? flying.splice(n % flying.length, 1) : [],
                );
                const writtenOf = (element: Element, n: number) => {
                  const most = sum(element.in.map(({ length }) => length));
                  return n % 2 === 0 ? most : n % (most + 1);
                };
                const order = done.map((element, i) => ({
                  id: element.id,
                  written: writtenOf(element, push[i]),
                }));
                state.heads = [];
                if (how === 'flush') {
                  // From the last one on; the ring has them in the order of the slots.
                  for (let i = order.length; i-- > 0; ) device.fill(order[i], order[i].written, i);
                  device.flush(order.length);
                } else if (how === 'pushBurst') {
                  order.forEach(({ id, written }, i) => {
                    elements.words.set([id, 0, 0, written], 4 * i);
                  });
                  elements.count = order.length;
                  expect(device.pushBurst(elements)).to.equal(order.length);
                } else for (const { id, written } of order) device.push({ id }, written);
                state.pushed.push(...order);
                for (let desc = ring.peek(); desc !== undefined; desc = ring.peek()) {
                  const { id, len, flags } = desc;
                  const at = out.findIndex((buffer) => buffer.id === id);
                  const batch = inOrder ? out.splice(0, at + 1) : out.splice(at, 1);
                  expect(
                    batch.map((buffer) => buffer.id),
                    'the used id is one of those in flight',
                  ).to.include(id);
                  expect(flags & ~(AVAIL | USED)).to.equal(len > 0 ? WRITE : 0);
                  state.heads.push(ring.collected & 0x7fff);
                  ring.collect(sum(batch.map(({ slots }) => slots)));
                  for (const buffer of batch) {
                    const length = buffer.id === id ? len : writable(buffer);
                    state.used.push({ id: buffer.id, length });
                    ids.push(buffer.id);
                  }
                  if (batch.length > 1) state.batches++;
                }
                if (when === 'each turn') check(state);
              }
              if (when === 'at the end') check(state);
            } finally {
              elements.free();
              device.release();
            }
          },
        ),
        { numRuns: 20 },
      );
    }

    const kinds = [
      ['direct', []],
      ['indirect', [INDIRECT_DESC]],
      ['in order', [IN_ORDER, INDIRECT_DESC]],
    ] as const;

    for (const [kind, features] of kinds) {
      it(`takes buffers as they stand in the ring, and their elements in order, ${kind} [packed-device-start-order] [packed-device-chain-order]`, async () => {
        let long = 0;
        await serve([...features], 'at the end', ({ offered, popped }) => {
          for (const [i, { id, out, in: in_ }] of popped.entries()) {
            const buffer = offered[i];
            expect({ id, out, in: in_ }).to.deep.equal({
              id: buffer.id,
              out: pieces(buffer.parts, false),
              in: pieces(buffer.parts, true),
            });
            if (buffer.slots > 2) long++;
          }
        });
        expect(long).to.be.above(0);
      });

      it(`writes one descriptor for what it uses, once, ${kind} [packed-device-after-used]`, async () => {
        let used = 0;
        await serve([...features], 'each turn', ({ ring, before, heads }) => {
          expect(heads).to.include.members(ring.changedSince(before));
          used += heads.length;
        });
        expect(used).to.be.above(100);
      });
    }

    for (const [kind, features] of kinds.slice(0, 2)) {
      it(`has used descriptors in the order in which buffers were pushed, ${kind} [packed-device-complete-order]`, async () => {
        let overtaken = 0;
        await serve([...features], 'at the end', ({ offered, pushed, used }) => {
          expect(used).to.deep.equal(pushed.map(({ id, written }) => ({ id, length: written })));
          overtaken += used.filter(({ id }, i) => offered[i].id !== id).length;
        });
        expect(overtaken).to.be.above(0);
      });
    }

    it('uses buffers in the order in which they were made available under IN_ORDER [reserved-device-in-order]', async () => {
      const seen = { held: 0, batches: 0 };
      await serve([IN_ORDER], 'each turn', ({ offered, pushed, used, batches }) => {
        const written = new Map<number, number[]>();
        for (const { id, written: length } of pushed) written.set(id, [...(written.get(id) ?? []), length]);
        // Those that a batch leaves out count as written completely.
        const expected = offered
          .slice(0, used.length)
          .map(({ id }) => ({ id, length: written.get(id)?.shift() }));
        expect(used).to.deep.equal(expected);
        // What is pushed and not used waits for one before it.
        if (pushed.length > used.length) {
          expect(written.get(offered[used.length].id) ?? []).to.deep.equal([]);
          seen.held++;
        }
        seen.batches += batches;
      });
      expect(seen.held).to.be.above(0);
      expect(seen.batches).to.be.above(0);
    });

    /** Makes a list and a table available, each readable and writable. */
    function prepare(ring: PackedPeer, filler = 0xa5): void {
      const memory = new Uint8Array(ring.memory.buffer);
      memory.fill(0xa5, DATA, DATA + 64);
      memory.fill(filler, DATA + 16, DATA + 32);
      memory.fill(filler, DATA + 48, DATA + 64);
      const parts = (addr: number) => [
        { addr, len: 16 },
        { addr: addr + 16, len: 16, write: true },
      ];
      ring.offerList(parts(DATA), 6);
      ring.offerTable(parts(DATA + 32), 2, TABLES.address);
    }

    /** Everything that a device queue does with the two buffers. Returns what it saw. */
    function exercise(device: DeviceQueue): unknown[] {
      const saw: unknown[] = [device.availableBytes(100, 100)];
      const first = device.pop();
      const second = device.pop();
      if (first === undefined || second === undefined) return expect.fail('nothing to pop');
      saw.push(first, second, device.pop());
      device.unpop(second);
      saw.push(device.pop());
      device.push(second, 5);
      device.fill(first, 16, 0);
      device.flush(1);
      device.disableNotifications();
      saw.push(device.enableNotifications(), device.shouldInterrupt());
      return saw;
    }

    it('writes to no readable buffer, nor anywhere but to used descriptors and its events [packed-device-readable]', async () => {
      for (const features of [[INDIRECT_DESC], [INDIRECT_DESC, EVENT_IDX], [INDIRECT_DESC, IN_ORDER]]) {
        const engine = await loadBeside(load);
        const { device, ring } = createDevice(engine, { features });
        prepare(ring);
        const before = guestBytes(engine);
        exercise(device);
        const inOrder = features.includes(IN_ORDER);
        const heads: number[] = [];
        for (let desc = ring.peek(); desc !== undefined; desc = ring.peek()) {
          heads.push(ring.collected & 0x7fff);
          ring.collect(inOrder ? 3 : desc.id === 6 ? 2 : 1);
        }
        // In order one used descriptor stands for both; else that of the table comes first.
        expect(heads).to.deep.equal(inOrder ? [0] : [0, 1]);
        const after = guestBytes(engine);
        for (const bytes of [before, after]) {
          for (const slot of heads)
            bytes.fill(0, AREAS.descriptor + 16 * slot, AREAS.descriptor + 16 * slot + 16);
          bytes.fill(0, AREAS.device, AREAS.device + 4);
        }
        expect(Buffer.compare(after, before)).to.equal(0);
      }
    });

    it('does nothing by what is in a writable buffer [packed-device-writable]', async () => {
      // A read leaves no trace; but whatever is in the buffers, everything that the queue does is the same.
      const outcomes = [];
      for (const filler of [0x00, 0xff, 0x5a]) {
        const engine = await loadBeside(load);
        const { device, ring } = createDevice(engine, { features: [INDIRECT_DESC] });
        prepare(ring, filler);
        outcomes.push({ saw: exercise(device), ring: [ring.descriptorBytes, ring.deviceBytes] });
      }
      expect(outcomes[1]).to.deep.equal(outcomes[0]);
      expect(outcomes[2]).to.deep.equal(outcomes[0]);
    });

    /** Offers, pops and uses `n` buffers of one descriptor, so that the ring stands `n` slots further on. */
    function moveOn({ device, ring }: ReturnType<typeof createDevice>, n: number): void {
      for (let i = 0; i < n; i++) {
        ring.offer([{ addr: DATA, len: 1 }], 0);
        device.push(device.pop() ?? { id: -1 }, 0);
        ring.collect(1);
      }
    }

    it('takes no descriptor whose AVAIL has not changed [packed-device-avail-changed]', async () => {
      const engine = await loadBeside(load);
      const size = 3;
      for (let steps = 0; steps <= 2 * size; steps++) {
        const queue = createDevice(engine, { size });
        const { device, ring } = queue;
        const elements = device.createElements(4);
        moveOn(queue, steps);
        const slot = steps % size;
        const wrap = ring.available & WRAP;
        const nothing = (what: string) => {
          const before = guestBytes(engine);
          expect(device.pop(), what).to.equal(undefined);
          expect(device.popBurst(elements), what).to.equal(0);
          expect(device.availableBytes(1, 1), what).to.deep.equal({ in: 0, out: 0 });
          expect(device.enableNotifications(), what).to.equal(true);
          expect(Buffer.compare(guestBytes(engine), before), what).to.equal(0);
          expect(device.broken, what).to.equal(false);
        };
        // What is there already: zeros, or what the device used a lap before.
        nothing(`after ${steps}`);
        for (const owner of [0, AVAIL, USED, AVAIL | USED]) {
          if (owner === (wrap ? AVAIL : USED)) continue;
          for (const rest of [0, WRITE, NEXT, INDIRECT]) {
            ring.setDesc(slot, { addr: BigInt(DATA), len: 16, id: 1, flags: owner | rest });
            nothing(`after ${steps}, flags ${owner | rest}`);
          }
        }
        ring.offer([{ addr: DATA, len: 16 }], 1);
        expect(device.pop()).to.deep.equal({ id: 1, out: [{ address: DATA, length: 16 }], in: [] });
        elements.free();
        device.release();
      }
    });

    it('takes no list of which a descriptor is not available [packed-device-avail-changed]', async () => {
      const engine = await loadBeside(load);
      for (let steps = 0; steps <= 10; steps++) {
        for (const missing of [1, 2]) {
          const queue = createDevice(engine, { size: 5 });
          const { device, ring } = queue;
          moveOn(queue, steps);
          const slots = ring.offerList(
            [1, 2, 3].map((len) => ({ addr: DATA, len })),
            1,
          );
          const desc = ring.desc(slots[missing]);
          ring.setDesc(slots[missing], { ...desc, flags: desc.flags ^ (AVAIL | USED) });
          const before = guestBytes(engine);
          refuses(() => device.pop(), 'EPROTO');
          expect(device.broken).to.equal(true);
          expect(Buffer.compare(guestBytes(engine), before)).to.equal(0);
          device.release();
        }
      }
    });

    it('ignores all but WRITE in a table, and WRITE in what refers to it', async () => {
      const engine = await loadBeside(load);
      for (const write of [0, WRITE]) {
        const { device, ring } = createDevice(engine, { features: [INDIRECT_DESC] });
        const flags = [0, NEXT, INDIRECT, AVAIL, USED];
        const parts = flags.map((flags, i) => ({ addr: DATA + 16 * i, len: 16, write: i > 2, flags }));
        ring.offerTable(parts, 3, TABLES.address, write);
        const piece = (i: number) => ({ address: DATA + 16 * i, length: 16 });
        expect(device.pop()).to.deep.equal({ id: 3, out: [0, 1, 2].map(piece), in: [3, 4].map(piece) });
        device.release();
      }
    });

    it('notifies as the event suppression structure of the driver says', async () => {
      const engine = await loadBeside(load);
      for (const size of [1, 4, 5]) {
        const queue = createDevice(engine, { features: [EVENT_IDX], size });
        const { device, ring, interrupts } = queue;
        /** Uses `n` buffers at once, and says whether the driver was notified. */
        const use = (n: number) => {
          const before = interrupts.count;
          for (let i = 0; i < n; i++) {
            ring.offer([{ addr: DATA, len: 1 }], i);
            device.fill(device.pop() ?? { id: -1 }, 0, i);
          }
          device.flush(n);
          ring.collect(n);
          return interrupts.count > before;
        };
        for (const start of positions(size)) {
          for (let n = 1; n <= size; n++) {
            for (const offWrap of positions(size)) {
              while (ring.collected !== start) moveOn(queue, 1);
              const passed = Array.from({ length: n }, (_, i) => ring.after(start, i));
              const named = passed.includes(offWrap);
              ring.driverEvent = { offWrap, flags: DESC };
              expect(use(n), `${n} from ${start}, event at ${offWrap}`).to.equal(named);
              ring.driverEvent = { offWrap, flags: named ? DISABLE : ENABLE };
              expect(use(n), `flags ${ring.driverEvent.flags}`).to.equal(!named);
            }
          }
        }
        device.release();
      }
    });

    it('keeps to the values of its event suppression structure', async () => {
      for (const [features, on] of [
        [[], ENABLE],
        [[EVENT_IDX], DESC],
      ] as const) {
        const engine = await loadBeside(load);
        const queue = createDevice(engine, { features, size: 3 });
        const { device, ring } = queue;
        expect(ring.deviceEvent).to.deep.equal({ offWrap: 0, flags: ENABLE });
        for (let i = 0; i < 12; i++) {
          device.disableNotifications();
          expect(ring.deviceEvent.flags).to.equal(DISABLE);
          moveOn(queue, 1);
          expect(ring.deviceEvent.flags).to.equal(DISABLE);
          device.enableNotifications();
          // The next descriptor, with the wrap counter it will have; nothing where it means nothing.
          expect(ring.deviceEvent).to.deep.equal({ offWrap: on === DESC ? ring.available : 0, flags: on });
          moveOn(queue, 1);
          expect(ring.deviceEvent).to.deep.equal({ offWrap: on === DESC ? ring.available : 0, flags: on });
        }
      }
    });
  });

  describe('reset of a packed queue', () => {
    function connect(engine: Host, size: number, features: Feature[] = []) {
      const interrupts = { count: 0 };
      const driver = engine.driverQueue({ ring: 'packed', size, features });
      const device = engine.deviceQueue({
        ring: 'packed',
        size,
        features,
        areas: driver.areas,
        interrupt: () => {
          interrupts.count++;
        },
      });
      return { driver, device, interrupts };
    }

    const part = { address: 0x100, length: 4 };

    it('leaves nothing of before to be served [reset-device-queue-silent]', async () => {
      const engine = await load();
      const { driver, device, interrupts } = connect(engine, 5);
      const ring = new PackedPeer(engine, driver.areas, 5);
      for (const token of [1, 2, 3]) driver.add([part], [], token);
      const first = device.pop() as Element;
      const second = device.pop() as Element;
      device.push(first, 0);
      expect(interrupts.count).to.equal(1);
      device.reset();
      driver.reset();
      const bytes = () => [ring.descriptorBytes, ring.driverBytes, ring.deviceBytes];
      const before = bytes();
      expect(device.inFlight).to.equal(0);
      expect(device.pop()).to.equal(undefined);
      for (const element of [first, second]) {
        refuses(() => device.push(element, 0), 'EINVAL');
        refuses(() => device.unpop(element), 'EINVAL');
      }
      expect(device.rewind(1)).to.equal(false);
      expect(device.shouldInterrupt()).to.equal(false);
      expect(bytes()).to.deep.equal(before);
      expect(interrupts.count).to.equal(1);
    });

    it('makes it as new, in whatever lap it was [reset-device-queue-state] [reset-driver-queue-config]', async () => {
      for (const features of [[], [EVENT_IDX, INDIRECT_DESC], [IN_ORDER]]) {
        const engine = await load();
        const size = 5;
        const { driver, device } = connect(engine, size, features);
        const ring = new PackedPeer(engine, driver.areas, size);
        /** The same work, and everything that can be seen of it. */
        const work = (count: number) => {
          const saw: unknown[] = [driver.numFree, driver.inFlight, device.inFlight];
          for (let token = 0; token < count; token++) {
            saw.push(driver.notificationData(0), driver.add([part], [part], token), driver.kickPrepare());
            const element = device.pop();
            saw.push(element);
            if (element === undefined || token === count - 1) continue;
            device.push(element, 3);
            saw.push(device.shouldInterrupt(), driver.getBuf());
          }
          saw.push(ring.descriptorBytes, ring.driverBytes, ring.deviceBytes);
          return saw;
        };
        let first: unknown[] | undefined;
        // Resets in either lap, with one buffer in flight.
        for (const count of [4, 4, 2, 4, 7, 4]) {
          const saw = work(count);
          if (count === 4) {
            first ??= saw;
            expect(saw).to.deep.equal(first);
          }
          device.disableNotifications();
          driver.disableCallbacks();
          // Breaks the device: a list that claims to be as long as the ring.
          const position = driver.notificationData(0) >>> 16;
          const mark = position & WRAP ? AVAIL : USED;
          ring.setDesc(position & 0x7fff, { addr: 0n, len: 1, id: 0x7fff, flags: mark });
          refuses(() => device.pop(), 'EPROTO');
          device.reset();
          expect(driver.reset()).to.deep.equal([count - 1]);
          expect(device.broken).to.equal(false);
          expect(device.fault).to.equal(undefined);
          for (const bytes of [ring.descriptorBytes, ring.driverBytes, ring.deviceBytes])
            expect(bytes.every((byte) => byte === 0)).to.equal(true);
        }
      }
    });

    it('lets it come back with another size [reset-device-queue-config] [reset-driver-queue-config]', async () => {
      const engine = await load();
      const { driver, device } = connect(engine, 8);
      for (const size of [3, 8, 1, 256, 100]) {
        const left = driver.resize(size);
        device.resize(size, driver.areas);
        expect(left).to.have.lengthOf(size === 3 ? 0 : 1);
        // Over the end of the ring, and once more.
        for (let lap = 0; lap < 3; lap++) {
          for (let token = 0; token < size; token++) expect(driver.add([part], [], token)).to.equal(true);
          expect(driver.add([part], [], size)).to.equal(false);
          const tokens = [];
          for (let element = device.pop(); element !== undefined; element = device.pop())
            device.push(element, 0);
          for (let back = driver.getBuf(); back !== undefined; back = driver.getBuf())
            tokens.push(back.token);
          expect(tokens).to.deep.equal(Array.from({ length: size }, (_, token) => token));
        }
        // One is lost with the ring.
        driver.add([part], [], 7);
      }
    });
  });
});
