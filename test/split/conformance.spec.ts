// One test for each normative statement about split virtqueues (virtio 1.4, 2.7), on both engines. What a
// queue did is read from the bytes of the ring, and the other side is played by hand. Statements about
// what another thread may see are in order.spec.ts.

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
  TABLES,
} from '../support/conformance.js';
import { forEachEngine, type Load } from '../support/engines.js';
import { type Descriptor, INDIRECT, NEXT, SplitRing, WRITE } from '../support/split-ring.js';

const { EVENT_IDX, INDIRECT_DESC, IN_ORDER } = Feature;

function createDriver(engine: Host, options: Partial<DriverQueueOptions> = {}) {
  const size = options.size ?? 8;
  const kicks = { count: 0 };
  const driver = engine.driverQueue({
    ring: 'split',
    areas: AREAS,
    indirect: { memory: TABLES },
    notify: () => {
      kicks.count++;
    },
    ...options,
    size,
  });
  return { driver, ring: new SplitRing(engine, driver.areas, size), kicks };
}

function createDevice(engine: Host, options: Partial<DeviceQueueOptions> = {}) {
  const size = options.size ?? 8;
  new Uint8Array(engine.buffer).fill(0, 0, GUEST);
  const interrupts = { count: 0 };
  const device = engine.deviceQueue({
    ring: 'split',
    areas: AREAS,
    interrupt: () => {
      interrupts.count++;
    },
    ...options,
    size,
  });
  return { device, ring: new SplitRing(engine, AREAS, size), interrupts };
}

interface Churn {
  driver: DriverQueue;
  ring: SplitRing;
  /** avail.idx before the last operation. */
  before: number;
  /** Heads made available by the last operation, each with what was added. */
  fresh: { head: number; added: Added }[];
  /** Heads that are with the device, and what was added. */
  exposed: Map<number, Added>;
}

/**
 * Runs a driver queue through random operations against a device played by hand, and `check` after each.
 * Returns how many buffers were added in all.
 */
async function churn(
  load: Load,
  features: Feature[],
  check: (state: Churn) => void,
  options: Partial<DriverQueueOptions> = {},
): Promise<number> {
  const engine = await loadBeside(load);
  let total = 0;
  fc.assert(
    fc.property(fc.array(operation, { minLength: 10, maxLength: 60 }), (operations) => {
      const { driver, ring } = createDriver(engine, { ...options, features });
      const burst = driver.createBurst(8, 128);
      const state: Churn = { driver, ring, before: 0, fresh: [], exposed: new Map() };
      const waiting: Added[] = [];
      let token = 0;
      try {
        check(state);
        for (const step of operations) {
          state.before = ring.availIdx;
          const asked: Added[] = [];
          if ('add' in step) {
            const [out, in_] = step.add;
            if (out.length + in_.length <= ring.size && driver.add(out, in_, token++))
              asked.push({ out, in: in_ });
          } else if ('burst' in step) {
            for (const [out, in_] of step.burst) {
              if (burst.pending === burst.buffers || out.length + in_.length > ring.size) break;
              for (const { address, length } of out) burst.out(address, length);
              for (const { address, length } of in_) burst.in(address, length);
              burst.end(token++);
              waiting.push({ out, in: in_ });
            }
            asked.push(...waiting.splice(0, driver.addBurst(burst)));
            burst.clear();
            waiting.length = 0;
          } else if ('use' in step) {
            // The first is the one that was added before all others.
            const heads = [...state.exposed.keys()];
            if (heads.length > 0) {
              const head = heads[features.includes(IN_ORDER) ? 0 : step.use % heads.length];
              state.exposed.delete(head);
              ring.use(head, 0);
            }
          } else driver[step.call]();
          state.fresh = asked.map((added, i) => ({ head: ring.availRing(state.before + i), added }));
          for (const { head, added } of state.fresh) state.exposed.set(head, added);
          total += asked.length;
          check(state);
        }
      } finally {
        burst.free();
        driver.release();
      }
    }),
    { numRuns: 60 },
  );
  return total;
}

forEachEngine((load) => {
  describe('split driver', () => {
    it('lays its parts at multiples of 16, 2 and 4 [split-driver-align]', async () => {
      const engine = await load();
      for (let size = 1; size <= 32768; size *= 2) {
        // Whatever was allocated before.
        const odd = engine.alloc(1 + (size % 7), 1);
        const { areas } = engine.driverQueue({ ring: 'split', size });
        expect([areas.descriptor % 16, areas.driver % 2, areas.device % 4], `size ${size}`).to.deep.equal([
          0, 0, 0,
        ]);
        engine.free(odd);
      }
    });

    it('refuses parts that are not aligned [split-driver-align]', async () => {
      const engine = await loadBeside(load);
      const unaligned: [Partial<typeof AREAS>, string][] = [
        [{ descriptor: AREAS.descriptor + 8 }, 'areas.descriptor must be a multiple of 16'],
        [{ driver: AREAS.driver + 1 }, 'areas.driver must be a multiple of 2'],
        [{ device: AREAS.device + 2 }, 'areas.device must be a multiple of 4'],
      ];
      for (const [wrong, message] of unaligned) {
        const areas = { ...AREAS, ...wrong };
        expect(refuses(() => createDriver(engine, { areas }), 'EINVAL')).to.include(message);
        expect(refuses(() => createDevice(engine, { areas }), 'EINVAL')).to.include(message);
      }
      const { driver } = createDriver(engine, {
        areas: { descriptor: AREAS.descriptor + 16, driver: AREAS.driver + 2, device: AREAS.device + 4 },
      });
      expect(driver.areas.device).to.equal(AREAS.device + 4);
    });

    for (const features of [[], [INDIRECT_DESC]]) {
      const kind = features.length > 0 ? 'indirect' : 'direct';

      it(`puts readable elements before writable ones, ${kind} [split-driver-order]`, async () => {
        let mixed = 0;
        await churn(load, features, ({ ring, fresh }) => {
          for (const { head, added } of fresh) {
            const writable = ring.elements(head).map((d) => (d.flags & WRITE) !== 0);
            expect(writable).to.deep.equal([...added.out.map(() => false), ...added.in.map(() => true)]);
            if (added.out.length > 0 && added.in.length > 0) mixed++;
          }
        });
        expect(mixed).to.be.above(0);
      });
    }

    it('refuses a readable element after a writable one [split-driver-order]', async () => {
      const engine = await loadBeside(load);
      const { driver } = createDriver(engine);
      const burst = driver.createBurst(1);
      refuses(() => burst.in(DATA, 1).out(DATA, 1), 'EINVAL');
      expect(burst.pending).to.equal(0);
    });

    it('refuses records written by hand that break a rule [split-driver-order] [split-driver-chain-bytes] [split-driver-indirect-negotiated] [split-driver-indirect-next]', async () => {
      const engine = await loadBeside(load);
      const { driver, ring } = createDriver(engine, { features: [INDIRECT_DESC] });
      const burst = driver.createBurst(2, 16);
      /** One buffer; of each record length and flags. */
      const write = (...records: [number, number][]) => {
        records.forEach(([length, flags], i) => {
          const more = i < records.length - 1 ? NEXT : 0;
          burst.words.set([DATA, 0, length, flags | more | (i === 0 ? records.length << 16 : 0)], 4 * i);
        });
        burst.tokens[0] = 1;
      };
      const bad: [string, [number, number][]][] = [
        [
          'readable after writable',
          [
            [1, WRITE],
            [1, 0],
          ],
        ],
        [
          'more than 2^32 bytes',
          [
            [2 ** 31, 0],
            [2 ** 31, 0],
            [1, 0],
          ],
        ],
        [
          'more than 2^32 bytes',
          [
            [2 ** 31, 0],
            [2 ** 31, WRITE],
            [1, WRITE],
          ],
        ],
        ['an indirect table', [[16, INDIRECT]]],
        [
          'an indirect table',
          [
            [1, 0],
            [16, INDIRECT],
          ],
        ],
        [
          'an indirect table that goes on',
          [
            [16, INDIRECT],
            [1, 0],
          ],
        ],
        ['a flag that is not defined', [[1, 8]]],
      ];
      for (const [what, records] of bad) {
        write(...records);
        refuses(() => burst.commit(1), 'EINVAL');
        expect(burst.pending, what).to.equal(0);
        expect(driver.addBurst(burst), what).to.equal(0);
      }
      expect(ring.availIdx).to.equal(0);
      write([2 ** 31, 0], [2 ** 31 - 1, 0], [1, WRITE]);
      burst.commit(1);
      expect(driver.addBurst(burst)).to.equal(1);
      expect(ring.elements(ring.availRing(0)).map((d) => [d.len, d.flags])).to.deep.equal([
        [2 ** 31, NEXT],
        [2 ** 31 - 1, NEXT],
        [1, WRITE],
      ]);
    });

    it('uses one descriptor for each segment [split-driver-few-descriptors]', async () => {
      await churn(load, [], ({ ring, fresh }) => {
        for (const { head, added } of fresh) {
          const elements = ring.elements(head).map(({ addr, len }) => ({ address: addr, length: len }));
          expect(elements).to.deep.equal([...added.out, ...added.in]);
        }
      });
    });

    it('passes addresses on as they are [reserved-driver-physical]', async () => {
      const engine = await loadBeside(load);
      const { driver, ring } = createDriver(engine);
      const addresses = [0n, 1n, 0xffff_ffffn, 0x1_0000_0000n, 0x8000_0000_0000_0000n, 2n ** 64n - 1n];
      addresses.forEach((address, i) => {
        expect(driver.add([{ address, length: 1 }], [], i)).to.equal(true);
        expect(ring.desc(ring.availRing(i)).addr).to.equal(address);
      });
    });

    it('adds no chain of more than 2^32 bytes [split-driver-chain-bytes]', async () => {
      const half = { address: 0, length: 2 ** 31 };
      const one = { address: 0, length: 1 };
      for (const features of [[], [INDIRECT_DESC]]) {
        const engine = await loadBeside(load);
        const { driver, ring } = createDriver(engine, { features });
        const before = guestBytes(engine);
        refuses(() => driver.add([half, half, one], [], 1), 'EINVAL');
        refuses(() => driver.add([half], [one, half], 1), 'EINVAL');
        refuses(() => driver.add([], [half, half, half], 1), 'EINVAL');
        const burst = driver.createBurst(2, 16);
        refuses(
          () =>
            burst
              .out(0, 2 ** 31)
              .out(0, 2 ** 31)
              .in(0, 1)
              .end(1),
          'EINVAL',
        );
        expect(burst.pending).to.equal(0);
        expect(guestBytes(engine)).to.deep.equal(before);
        // 2^32 exactly is allowed.
        expect(driver.add([half, half], [], 1)).to.equal(true);
        expect(ring.availIdx).to.equal(1);
      }
    });

    it('adds no chain that loops [split-driver-chain-bytes]', async () => {
      const added = await churn(load, [], ({ ring, exposed }) => {
        // `chain` throws when it comes to a descriptor again; no two buffers share one.
        const all = [...exposed.keys()].flatMap((head) => ring.chain(head));
        expect(new Set(all).size).to.equal(all.length);
      });
      expect(added).to.be.above(100);
    });

    it('chains the slots of the table in their order under IN_ORDER [split-driver-in-order-next]', async () => {
      let expected = 0;
      let wrapped = 0;
      await churn(load, [IN_ORDER], ({ ring, before, fresh }) => {
        if (before === 0) expected = 0;
        for (const { head } of fresh) {
          expect(head).to.equal(expected);
          for (const index of ring.chain(head)) {
            const { flags, next } = ring.desc(index);
            expect(index).to.equal(expected);
            expected = index === ring.size - 1 ? 0 : index + 1;
            if (!(flags & NEXT)) continue;
            expect(next).to.equal(expected);
            if (next === 0) wrapped++;
          }
        }
      });
      expect(wrapped).to.be.above(0);
    });

    it('fills tables from 0 on without a gap under IN_ORDER [split-driver-in-order-indirect]', async () => {
      let inside = 0;
      await churn(load, [IN_ORDER, INDIRECT_DESC], ({ ring, fresh }) => {
        for (const { head } of fresh) {
          const { addr, len, flags } = ring.desc(head);
          if (!(flags & INDIRECT)) continue;
          const last = len / 16 - 1;
          for (let i = 0; i <= last; i++) {
            const entry = ring.desc(i, Number(addr));
            expect(entry.flags & NEXT).to.equal(i < last ? NEXT : 0);
            if (i < last) expect(entry.next).to.equal(i + 1);
            inside++;
          }
        }
      });
      expect(inside).to.be.above(0);
    });

    it('gives avail.idx with a notification', async () => {
      const engine = await loadBeside(load);
      const { driver, ring } = createDriver(engine, { size: 4 });
      for (let i = 0; i < 66000; i++) {
        const data = driver.notificationData(7);
        if (data !== ((ring.availIdx << 16) | 7) >>> 0)
          expect.fail(`notification data ${data} at ${ring.availIdx}`);
        driver.add([{ address: DATA, length: 1 }], [], 0);
        ring.use(ring.availRing(i), 0);
        driver.getBuf();
      }
    });

    it('sets INDIRECT only where it was negotiated [split-driver-indirect-negotiated]', async () => {
      let tables = 0;
      const look = (allowed: boolean) => (state: Churn) => {
        for (let i = 0; i < state.ring.size; i++) {
          if (state.ring.desc(i).flags & INDIRECT) {
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

    it('refers to no table from a table [split-driver-indirect-nested]', async () => {
      let inside = 0;
      await churn(load, [INDIRECT_DESC], ({ ring, exposed }) => {
        for (const head of exposed.keys()) {
          const { addr, len, flags } = ring.desc(head);
          if (!(flags & INDIRECT)) continue;
          for (let i = 0; i < len / 16; i++) {
            expect(ring.desc(i, Number(addr)).flags & INDIRECT).to.equal(0);
            inside++;
          }
        }
      });
      expect(inside).to.be.above(0);
    });

    it('adds no chain longer than the queue [split-driver-chain-length]', async () => {
      const engine = await loadBeside(load);
      for (const features of [[], [INDIRECT_DESC]]) {
        for (const size of [1, 2, 4, 8]) {
          const { driver, ring } = createDriver(engine, { size, features });
          const segments = Array.from({ length: size + 1 }, (_, i) => ({ address: DATA + i, length: 1 }));
          refuses(() => driver.add(segments, [], 1), 'EINVAL');
          refuses(() => driver.add([], segments, 1), 'EINVAL');
          const burst = driver.createBurst(1, size + 1);
          for (const { address, length } of segments) burst.out(address, length);
          burst.end(1);
          refuses(() => driver.addBurst(burst), 'EINVAL');
          expect(ring.availIdx).to.equal(0);
          // As long as the queue is allowed.
          expect(driver.add(segments.slice(1), [], 1)).to.equal(true);
          expect(ring.elements(ring.availRing(0))).to.have.lengthOf(size);
          driver.release();
          burst.free();
        }
      }
    });

    it('never sets INDIRECT together with NEXT [split-driver-indirect-next]', async () => {
      let tables = 0;
      await churn(load, [INDIRECT_DESC], ({ ring }) => {
        for (let i = 0; i < ring.size; i++) {
          const { flags } = ring.desc(i);
          if (!(flags & INDIRECT)) continue;
          expect(flags & NEXT).to.equal(0);
          tables++;
        }
      });
      expect(tables).to.be.above(0);
    });

    it('never moves avail.idx back, also when it wraps [split-driver-avail-idx]', async () => {
      for (const features of [[], [EVENT_IDX]]) {
        await churn(load, features, ({ ring, before, fresh }) => {
          expect((ring.availIdx - before) & 0xffff).to.equal(fresh.length);
        });
        const engine = await loadBeside(load);
        const { driver, ring } = createDriver(engine, { size: 4, features });
        for (let i = 0; i < 66000; i++) {
          driver.add([{ address: DATA, length: 1 }], [], i);
          if (ring.availIdx !== ((i + 1) & 0xffff))
            expect.fail(`avail.idx ${ring.availIdx} after ${i + 1} buffers`);
          ring.use(ring.availRing(i), 0);
          if (driver.getBuf()?.token !== i) expect.fail(`buffer ${i} did not come back`);
        }
      }
    });

    for (const features of [[], [INDIRECT_DESC]]) {
      const kind = features.length > 0 ? 'indirect' : 'direct';

      it(`leaves the entries of exposed buffers alone, ${kind} [cleanup-driver-exposed]`, async () => {
        let kept = 0;
        const entries = new Map<number, Descriptor[]>();
        const chain = (ring: SplitRing, head: number) => [
          ...ring.chain(head).map((index) => ring.desc(index)),
          ...ring.elements(head),
        ];
        await churn(load, features, ({ ring, fresh, exposed }) => {
          if (exposed.size === 0) entries.clear();
          for (const { head } of fresh) entries.set(head, chain(ring, head));
          for (const head of exposed.keys()) {
            expect(chain(ring, head)).to.deep.equal(entries.get(head));
            kept++;
          }
        });
        expect(kept).to.be.above(0);
      });
    }

    it('gives exposed buffers back on a reset only, each once [cleanup-driver-not-live]', async () => {
      const engine = await loadBeside(load);
      for (const features of [[], [INDIRECT_DESC]]) {
        const { driver, ring } = createDriver(engine, { features });
        for (let token = 0; token < 4; token++) {
          driver.add([{ address: DATA, length: 1 }], [{ address: DATA, length: 1 }], token);
        }
        ring.use(ring.availRing(2), 0);
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

    it('keeps avail.flags 0 or 1 without EVENT_IDX [split-driver-avail-flags]', async () => {
      const seen = new Set<number>();
      await churn(load, [], ({ ring }) => seen.add(ring.availFlags));
      expect([...seen]).to.have.members([0, 1]);
      const engine = await loadBeside(load);
      const { driver, ring } = createDriver(engine);
      driver.disableCallbacks();
      expect(ring.availFlags).to.equal(1);
      driver.enableCallbacks();
      expect(ring.availFlags).to.equal(0);
    });

    it('keeps avail.flags 0 with EVENT_IDX [split-driver-avail-flags-event]', async () => {
      const flags = new Set<number>();
      const events = new Set<number>();
      await churn(load, [EVENT_IDX], ({ ring }) => {
        flags.add(ring.availFlags);
        events.add(ring.usedEvent);
      });
      expect([...flags]).to.deep.equal([0]);
      // That it asked for notifications and for none by other means: used_event moved.
      expect(events.size).to.be.above(1);
    });

    it('stands notifications without a used buffer [split-driver-spurious]', async () => {
      const engine = await loadBeside(load);
      for (const features of [[], [EVENT_IDX]]) {
        const { driver, ring } = createDriver(engine, { features });
        const completions = driver.createCompletions(4);
        driver.add([], [{ address: DATA, length: 16 }], 7);
        const before = ring.deviceBytes;
        for (let i = 0; i < 10; i++) {
          expect(driver.moreUsed()).to.equal(false);
          expect(driver.getBuf()).to.equal(undefined);
          expect(driver.getBurst(completions)).to.equal(0);
          expect(driver.enableCallbacks()).to.equal(true);
        }
        expect(driver.broken).to.equal(false);
        expect(ring.availIdx).to.equal(1);
        expect(ring.deviceBytes).to.deep.equal(before);
        ring.use(ring.availRing(0), 5);
        expect(driver.getBuf()).to.deep.equal({ token: 7, length: 5 });
        expect(driver.getBuf()).to.equal(undefined);
        completions.free();
        driver.release();
      }
    });

    it('concludes nothing from bytes beyond len [split-driver-len-beyond]', async () => {
      // The same buffer with three different contents: the completion and everything later is the same.
      const outcomes = [];
      for (const filler of [0x00, 0xff, 0x5a]) {
        const engine = await loadBeside(load);
        const { driver, ring } = createDriver(engine, { features: [INDIRECT_DESC] });
        new Uint8Array(engine.buffer).fill(filler, DATA, DATA + 64);
        driver.add(
          [],
          [
            { address: DATA, length: 16 },
            { address: DATA + 16, length: 48 },
          ],
          7,
        );
        ring.use(ring.availRing(0), 3);
        const completion = driver.getBuf();
        driver.add([{ address: DATA, length: 64 }], [], 8);
        outcomes.push({ completion, free: driver.numFree, ring: [ring.descriptorBytes, ring.driverBytes] });
      }
      expect(outcomes[0].completion).to.deep.equal({ token: 7, length: 3 });
      expect(outcomes[1]).to.deep.equal(outcomes[0]);
      expect(outcomes[2]).to.deep.equal(outcomes[0]);
    });

    it('leaves the bytes of a used buffer alone [split-driver-len-ignore]', async () => {
      const engine = await loadBeside(load);
      for (const strict of [false, true]) {
        const { driver, ring } = createDriver(engine, { strict });
        new Uint8Array(engine.buffer).fill(0xa5, DATA, DATA + 64);
        driver.add([{ address: DATA, length: 16 }], [{ address: DATA + 16, length: 48 }], 7);
        ring.use(ring.availRing(0), 3);
        expect(driver.getBuf()).to.deep.equal({ token: 7, length: 3 });
        driver.reset();
        expect(ring.bytes(DATA, 64).every((byte) => byte === 0xa5)).to.equal(true);
        driver.release();
      }
    });

    it('starts with used.flags 0, whatever was in the memory [split-driver-used-flags-zero]', async () => {
      const engine = await loadBeside(load);
      new Uint8Array(engine.buffer).fill(0xff, 0, GUEST);
      const { ring } = createDriver(engine);
      expect(ring.usedFlags).to.equal(0);
      expect(ring.deviceBytes.every((byte) => byte === 0)).to.equal(true);
      // From the arena, too.
      const dirty = engine.alloc(4096);
      new Uint8Array(engine.buffer).fill(0xff, dirty, dirty + 4096);
      engine.free(dirty);
      const driver = engine.driverQueue({ ring: 'split', size: 64 });
      expect(new SplitRing(engine, driver.areas, 64).deviceBytes.every((byte) => byte === 0)).to.equal(true);
    });

    /** Adds one buffer and kicks; returns whether the device was notified. The buffer comes back at once. */
    function addAndKick({ driver, ring, kicks }: ReturnType<typeof createDriver>): boolean {
      const slot = ring.availIdx;
      const before = kicks.count;
      if (!driver.add([{ address: DATA, length: 1 }], [], 1)) expect.fail('the ring is full');
      const kicked = driver.kick();
      if (kicked !== kicks.count > before) expect.fail('kick and notify disagree');
      ring.use(ring.availRing(slot), 0);
      driver.getBuf();
      return kicked;
    }

    it('looks at used.flags only, without EVENT_IDX [split-driver-avail-event-ignored]', async () => {
      const engine = await loadBeside(load);
      const queue = createDriver(engine);
      for (const flags of [0, 1]) {
        queue.ring.usedFlags = flags;
        for (let distance = -9; distance <= 9; distance++) {
          queue.ring.availEvent = (queue.ring.availIdx + distance) & 0xffff;
          expect(addAndKick(queue), `avail_event ${distance} ahead`).to.equal(flags === 0);
        }
      }
    });

    it('does not notify while used.flags is 1 [split-driver-suppressed]', async () => {
      const engine = await loadBeside(load);
      const queue = createDriver(engine);
      queue.ring.usedFlags = 1;
      for (let i = 0; i < 20; i++) expect(addAndKick(queue)).to.equal(false);
      queue.ring.usedFlags = 0;
      expect(addAndKick(queue)).to.equal(true);
    });

    it('notifies while used.flags is 0 [split-driver-notifies]', async () => {
      const engine = await loadBeside(load);
      const queue = createDriver(engine);
      for (let i = 0; i < 20; i++) expect(addAndKick(queue)).to.equal(true);
    });

    it('does not look at used.flags with EVENT_IDX [split-driver-flags-ignored]', async () => {
      const engine = await loadBeside(load);
      const queue = createDriver(engine, { features: [EVENT_IDX] });
      for (const flags of [0, 1]) {
        queue.ring.usedFlags = flags;
        for (let distance = -3; distance <= 3; distance++) {
          queue.ring.availEvent = (queue.ring.availIdx + distance) & 0xffff;
          expect(addAndKick(queue), `flags ${flags}, avail_event ${distance} ahead`).to.equal(distance === 0);
        }
      }
    });

    it('notifies at the index in avail_event, also when it wraps [split-driver-event-notifies]', async () => {
      const engine = await loadBeside(load);
      const queue = createDriver(engine, { features: [EVENT_IDX], size: 4 });
      for (let i = 0; i < 66000; i++) {
        queue.ring.availEvent = i & 0xffff;
        if (!addAndKick(queue)) expect.fail(`no notification for the buffer with index ${i}`);
      }
      // In a burst: any of its indices.
      for (let i = 0; i < 4; i++) {
        const { driver, ring, kicks } = createDriver(engine, { features: [EVENT_IDX], size: 4 });
        ring.availEvent = i;
        const burst = driver.createBurst(4);
        for (let token = 0; token < 4; token++) burst.out(DATA, 1).end(token);
        expect(driver.addBurst(burst)).to.equal(4);
        expect(driver.kick()).to.equal(true);
        expect(kicks.count).to.equal(1);
        burst.free();
      }
    });

    it('does not notify at any other index [split-driver-event-suppressed]', async () => {
      const engine = await loadBeside(load);
      const queue = createDriver(engine, { features: [EVENT_IDX], size: 4 });
      for (let i = 0; i < 66000; i++) {
        // Behind, ahead, and everywhere else in turn.
        const distance = [1, 65535, 2, 65534, 32768, 1 + (i % 65535)][i % 6];
        queue.ring.availEvent = (i + distance) & 0xffff;
        if (addAndKick(queue))
          expect.fail(`a notification for index ${i}, avail_event ${queue.ring.availEvent}`);
      }
      const { driver, ring } = createDriver(engine, { features: [EVENT_IDX], size: 4 });
      for (const event of [4, 5, 65535, 32768]) {
        ring.availEvent = event;
        const burst = driver.createBurst(4);
        for (let token = 0; token < 4; token++) burst.out(DATA, 1).end(token);
        expect(driver.addBurst(burst)).to.equal(4);
        expect(driver.kick(), `avail_event ${event}`).to.equal(false);
        driver.reset();
        burst.free();
      }
    });
  });

  describe('split device', () => {
    /** Cuts `total` bytes at the given places. */
    function cut(total: number, places: number[]): number[] {
      const at = [
        0,
        ...[...new Set(places.map((place) => place % (total + 1)))].sort((a, b) => a - b),
        total,
      ];
      return at.slice(1).map((end, i) => end - at[i]);
    }

    it('reads and writes a message however it is cut [split-device-framing]', async () => {
      const engine = await loadBeside(load);
      const places = fc.array(fc.nat({ max: 24 }), { maxLength: 6 });
      fc.assert(
        fc.property(places, places, fc.boolean(), (cutOut, cutIn, indirect) => {
          const { device, ring } = createDevice(engine, { size: 16, features: [INDIRECT_DESC] });
          const memory = new Uint8Array(engine.buffer);
          const message = Uint8Array.from({ length: 24 }, (_, i) => i + 1);
          const answer = Uint8Array.from({ length: 24 }, (_, i) => 100 + i);
          // Pieces lie apart, so that nothing works by their being adjacent.
          let at = DATA;
          let sent = 0;
          const segments: { addr: number; len: number; write?: boolean }[] = [];
          for (const len of cut(24, cutOut)) {
            memory.set(message.subarray(sent, sent + len), at);
            segments.push({ addr: at, len });
            sent += len;
            at += len + 32;
          }
          for (const len of cut(24, cutIn)) {
            segments.push({ addr: at, len, write: true });
            at += len + 32;
          }
          if (indirect) {
            segments.forEach(({ addr, len, write }, i) => {
              const more = i < segments.length - 1;
              const flags = (write ? WRITE : 0) | (more ? NEXT : 0);
              ring.setDesc(i, { addr: BigInt(addr), len, flags, next: more ? i + 1 : 0 }, TABLES.address);
            });
            ring.setDesc(3, {
              addr: BigInt(TABLES.address),
              len: 16 * segments.length,
              flags: INDIRECT,
              next: 0,
            });
            ring.makeAvailable(3);
          } else ring.offer(segments);

          const element = device.pop();
          if (element === undefined) return expect.fail('nothing to pop');
          const got = element.out.flatMap(({ address, length }) => [
            ...memory.subarray(address, address + length),
          ]);
          expect(got).to.deep.equal([...message]);
          let written = 0;
          for (const { address, length } of element.in) {
            memory.set(answer.subarray(written, written + length), address);
            written += length;
          }
          expect(written).to.equal(24);
          device.push(element, written);
          const back = segments
            .filter(({ write }) => write)
            .flatMap(({ addr, len }) => [...memory.subarray(addr, addr + len)]);
          expect(back).to.deep.equal([...answer]);
          expect(ring.usedRing(0)).to.deep.equal({ id: element.id, len: 24 });
          device.release();
        }),
        { numRuns: 200 },
      );
    });

    /** Makes a direct and an indirect chain available, each readable and writable. */
    function prepare(ring: SplitRing, filler = 0xa5): void {
      const memory = new Uint8Array(ring.memory.buffer);
      memory.fill(0xa5, DATA, DATA + 64);
      memory.fill(filler, DATA + 16, DATA + 32);
      memory.fill(filler, DATA + 48, DATA + 64);
      ring.setDesc(0, { addr: BigInt(DATA), len: 16, flags: NEXT, next: 1 });
      ring.setDesc(1, { addr: BigInt(DATA + 16), len: 16, flags: WRITE, next: 0 });
      ring.setDesc(0, { addr: BigInt(DATA + 32), len: 16, flags: NEXT, next: 1 }, TABLES.address);
      ring.setDesc(1, { addr: BigInt(DATA + 48), len: 16, flags: WRITE, next: 0 }, TABLES.address);
      ring.setDesc(2, { addr: BigInt(TABLES.address), len: 32, flags: INDIRECT, next: 0 });
      ring.makeAvailable(0);
      ring.makeAvailable(2);
    }

    /** Everything that a device queue does with the two chains. Returns what it saw. */
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

    it('writes to no readable buffer, nor anywhere but to the used ring [split-device-readable]', async () => {
      for (const features of [[INDIRECT_DESC], [INDIRECT_DESC, EVENT_IDX]]) {
        const engine = await loadBeside(load);
        const { device, ring } = createDevice(engine, { features });
        prepare(ring);
        const before = guestBytes(engine);
        exercise(device);
        expect(ring.usedIdx).to.equal(2);
        const after = guestBytes(engine);
        const end = AREAS.device + ring.deviceBytes.length;
        for (let address = 0; address < GUEST; address++) {
          if (address >= AREAS.device && address < end) continue;
          if (after[address] !== before[address]) expect.fail(`the byte at ${address} has changed`);
        }
      }
    });

    it('writes to no descriptor [split-device-table]', async () => {
      const engine = await loadBeside(load);
      const { device, ring } = createDevice(engine, { features: [INDIRECT_DESC] });
      prepare(ring);
      const before = [ring.descriptorBytes, ring.bytes(TABLES.address, 64)];
      exercise(device);
      expect(ring.usedIdx).to.equal(2);
      expect([ring.descriptorBytes, ring.bytes(TABLES.address, 64)]).to.deep.equal(before);
    });

    it('does nothing by what is in a writable buffer [split-device-writable]', async () => {
      // A read leaves no trace; but whatever is in the buffers, everything that the queue does is the same.
      const outcomes = [];
      for (const filler of [0x00, 0xff, 0x5a]) {
        const engine = await loadBeside(load);
        const { device, ring } = createDevice(engine, { features: [INDIRECT_DESC] });
        prepare(ring, filler);
        outcomes.push({ saw: exercise(device), used: ring.deviceBytes });
      }
      expect(outcomes[1]).to.deep.equal(outcomes[0]);
      expect(outcomes[2]).to.deep.equal(outcomes[0]);
    });

    it('ignores WRITE in a descriptor that refers to a table [split-device-indirect-write]', async () => {
      const engine = await loadBeside(load);
      const popped = [0, WRITE].map((write) => {
        const { device, ring } = createDevice(engine, { features: [INDIRECT_DESC] });
        ring.setDesc(0, { addr: BigInt(DATA), len: 16, flags: NEXT, next: 1 }, TABLES.address);
        ring.setDesc(1, { addr: BigInt(DATA + 16), len: 8, flags: WRITE, next: 0 }, TABLES.address);
        ring.setDesc(5, { addr: BigInt(TABLES.address), len: 32, flags: INDIRECT | write, next: 0 });
        ring.makeAvailable(5);
        return device.pop();
      });
      expect(popped[0]).to.deep.equal({
        id: 5,
        out: [{ address: DATA, length: 16 }],
        in: [{ address: DATA + 16, length: 8 }],
      });
      expect(popped[1]).to.deep.equal(popped[0]);
    });

    it('takes any number of direct descriptors before one for a table [split-device-indirect-mixed]', async () => {
      const engine = await loadBeside(load);
      for (let direct = 0; direct <= 5; direct++) {
        for (let writable = 0; writable <= direct; writable++) {
          const { device, ring } = createDevice(engine, { features: [INDIRECT_DESC] });
          const expected: Descriptor[] = [];
          for (let i = 0; i < direct; i++) {
            const write = i >= direct - writable ? WRITE : 0;
            const d = { addr: BigInt(DATA + 16 * i), len: i + 1, flags: NEXT | write, next: i + 1 };
            ring.setDesc(i, d);
            expected.push(d);
          }
          for (let i = 0; i < 2; i++) {
            const write = writable > 0 || i === 1 ? WRITE : 0;
            const d = {
              addr: BigInt(DATA + 256 + 16 * i),
              len: 7 + i,
              flags: write | (i === 0 ? NEXT : 0),
              next: 1 - i,
            };
            ring.setDesc(i, d, TABLES.address);
            expected.push(d);
          }
          ring.setDesc(direct, { addr: BigInt(TABLES.address), len: 32, flags: INDIRECT, next: 0 });
          ring.makeAvailable(0);
          const piece = ({ addr, len }: Descriptor) => ({ address: Number(addr), length: len });
          expect(device.pop(), `${direct} direct, ${writable} of them writable`).to.deep.equal({
            id: 0,
            out: expected.filter((d) => !(d.flags & WRITE)).map(piece),
            in: expected.filter((d) => d.flags & WRITE).map(piece),
          });
          device.release();
        }
      }
    });

    /** Offers one buffer and uses it; returns whether the driver was notified. */
    function useOne({ device, ring, interrupts }: ReturnType<typeof createDevice>): boolean {
      const before = interrupts.count;
      ring.offer([{ addr: DATA, len: 1, write: true }], ring.available % ring.size);
      const element = device.pop();
      if (element === undefined) return expect.fail('nothing to pop');
      device.push(element, 1);
      return interrupts.count > before;
    }

    it('looks at avail.flags only, without EVENT_IDX [split-device-used-event-ignored]', async () => {
      const engine = await loadBeside(load);
      const queue = createDevice(engine);
      for (const flags of [0, 1]) {
        queue.ring.availFlags = flags;
        for (let distance = -9; distance <= 9; distance++) {
          queue.ring.usedEvent = (queue.ring.usedIdx + distance) & 0xffff;
          expect(useOne(queue), `used_event ${distance} ahead`).to.equal(flags === 0);
        }
      }
    });

    it('does not notify while avail.flags is 1 [split-device-suppressed]', async () => {
      const engine = await loadBeside(load);
      const queue = createDevice(engine);
      queue.ring.availFlags = 1;
      for (let i = 0; i < 20; i++) expect(useOne(queue)).to.equal(false);
      queue.ring.availFlags = 0;
      expect(useOne(queue)).to.equal(true);
    });

    it('notifies while avail.flags is 0 [split-device-notifies]', async () => {
      const engine = await loadBeside(load);
      const queue = createDevice(engine);
      for (let i = 0; i < 20; i++) expect(useOne(queue)).to.equal(true);
    });

    it('does not look at avail.flags with EVENT_IDX [split-device-flags-ignored]', async () => {
      const engine = await loadBeside(load);
      const queue = createDevice(engine, { features: [EVENT_IDX] });
      for (const flags of [0, 1]) {
        queue.ring.availFlags = flags;
        for (let distance = -3; distance <= 3; distance++) {
          queue.ring.usedEvent = (queue.ring.usedIdx + distance) & 0xffff;
          expect(useOne(queue), `flags ${flags}, used_event ${distance} ahead`).to.equal(distance === 0);
        }
      }
    });

    /** Offers and pops `n` buffers, and uses them all at once; returns whether the driver was notified. */
    function useBatch({ device, ring, interrupts }: ReturnType<typeof createDevice>, n: number): boolean {
      const before = interrupts.count;
      for (let i = 0; i < n; i++) {
        ring.offer([{ addr: DATA, len: 1, write: true }], ring.available % ring.size);
        const element = device.pop();
        if (element === undefined) return expect.fail('nothing to pop');
        device.fill(element, 1, i);
      }
      device.flush(n);
      return interrupts.count > before;
    }

    it('notifies at the index in used_event, also when it wraps [split-device-event-notifies]', async () => {
      const engine = await loadBeside(load);
      const queue = createDevice(engine, { features: [EVENT_IDX] });
      for (let i = 0; i < 66000; i++) {
        queue.ring.usedEvent = i & 0xffff;
        if (!useOne(queue)) expect.fail(`no notification for the used buffer with index ${i}`);
      }
      for (let i = 0; i < 4; i++) {
        queue.ring.usedEvent = queue.ring.usedIdx + i;
        expect(useBatch(queue, 4), `used_event ${i} ahead`).to.equal(true);
      }
    });

    it('does not notify at any other index [split-device-event-suppressed]', async () => {
      const engine = await loadBeside(load);
      const queue = createDevice(engine, { features: [EVENT_IDX] });
      for (let i = 0; i < 66000; i++) {
        const distance = [1, 65535, 2, 65534, 32768, 1 + (i % 65535)][i % 6];
        queue.ring.usedEvent = (i + distance) & 0xffff;
        if (useOne(queue)) expect.fail(`a notification for index ${i}, used_event ${queue.ring.usedEvent}`);
      }
      for (const distance of [4, 5, 65535, 32768]) {
        queue.ring.usedEvent = (queue.ring.usedIdx + distance) & 0xffff;
        expect(useBatch(queue, 4), `used_event ${distance} ahead`).to.equal(false);
      }
    });

    it('has len in the entry before used.idx shows it [split-device-len-first]', async () => {
      const engine = await loadBeside(load);
      const { device, ring } = createDevice(engine);
      for (let i = 0; i < 20; i++) {
        ring.offer([{ addr: DATA, len: 100, write: true }], i % 8);
        const element = device.pop();
        if (element === undefined) return expect.fail('nothing to pop');
        device.fill(element, 50 + i, 0);
        expect(ring.usedRing(i)).to.deep.equal({ id: i % 8, len: 50 + i });
        expect(ring.usedIdx).to.equal(i);
        device.flush(1);
        expect(ring.usedIdx).to.equal(i + 1);
        expect(ring.usedRing(i)).to.deep.equal({ id: i % 8, len: 50 + i });
      }
    });

    it('shows no buffer as used before push, nor more of it than there is [split-device-len-written]', async () => {
      const engine = await loadBeside(load);
      const { device, ring } = createDevice(engine);
      ring.offer([
        { addr: DATA, len: 100 },
        { addr: DATA + 100, len: 5, write: true },
        { addr: DATA + 200, len: 5, write: true },
      ]);
      const element = device.pop();
      if (element === undefined) return expect.fail('nothing to pop');
      expect(element.in).to.deep.equal([
        { address: DATA + 100, length: 5 },
        { address: DATA + 200, length: 5 },
      ]);
      const before = ring.deviceBytes;
      // While the device writes, from the first writable byte on, the driver sees nothing.
      const memory = new Uint8Array(engine.buffer);
      for (const { address, length } of element.in) memory.fill(1, address, address + length);
      expect(ring.deviceBytes).to.deep.equal(before);
      // It cannot claim to have written bytes that it was not given.
      refuses(() => device.push(element, 11), 'EINVAL');
      expect(ring.deviceBytes).to.deep.equal(before);
      device.push(element, 10);
      expect(ring.usedIdx).to.equal(1);
      expect(ring.usedRing(0)).to.deep.equal({ id: 0, len: 10 });
    });

    const step = fc.record({ pop: fc.nat({ max: 3 }), push: fc.array(fc.nat(), { maxLength: 4 }) });

    it('uses buffers in the order in which they were made available under IN_ORDER [reserved-device-in-order]', async () => {
      const engine = await loadBeside(load);
      let ahead = 0;
      let batches = 0;
      fc.assert(
        fc.property(fc.array(step, { minLength: 5, maxLength: 40 }), fc.boolean(), (steps, atOnce) => {
          const { device, ring } = createDevice(engine, { features: [IN_ORDER] });
          const popped: Element[] = [];
          /** Heads in the order in which they were made available, and what was pushed for each. */
          const offered: number[] = [];
          const pushed = new Map<number, number>();
          let seen = 0;
          for (const { pop, push } of steps) {
            // Descriptors in ring order, as the feature wants it.
            while (offered.length < ring.size) {
              const head = ring.available % ring.size;
              ring.offer([{ addr: DATA + 64 * head, len: 10 + head, write: true }], head);
              offered.push(head);
            }
            for (let i = 0; i < pop; i++) {
              const element = device.pop();
              if (element !== undefined) popped.push(element);
            }
            const done = push.flatMap((n) => popped.splice(n % (popped.length + 1), 1));
            for (const [i, element] of done.entries()) {
              const written = (element.id + i) % 3 === 0 ? 3 : 10 + element.id;
              pushed.set(element.id, written);
              if (atOnce) device.fill(element, written, 0);
              else device.push(element, written);
            }
            if (atOnce) device.flush(done.length);
            while (seen !== ring.usedIdx) {
              const { id, len } = ring.usedRing(seen);
              const batch = offered.splice(0, offered.indexOf(id) + 1);
              expect(batch, 'the used id is one of those in flight').to.include(id);
              expect(batch.length).to.be.at.most((ring.usedIdx - seen) & 0xffff);
              if (batch.length > 1) batches++;
              // Those without an entry count as written completely.
              for (const head of batch) {
                expect(pushed.get(head)).to.equal(head === id ? len : 10 + head);
                pushed.delete(head);
              }
              seen += batch.length;
            }
            // What is pushed and not used waits for one before it.
            if (pushed.size > 0) {
              expect(pushed.has(offered[0])).to.equal(false);
              ahead++;
            }
          }
          device.release();
        }),
        { numRuns: 60 },
      );
      expect(ahead).to.be.above(0);
      expect(batches).to.be.above(0);
    });

    /** What a device writes to used.flags and avail_event when it turns notifications off and on. */
    async function notificationWords(features: Feature[]) {
      const engine = await loadBeside(load);
      const queue = createDevice(engine, { features });
      const seen = [];
      for (let i = 0; i < 20; i++) {
        for (const change of ['disableNotifications', 'enableNotifications'] as const) {
          queue.device[change]();
          seen.push({ change, flags: queue.ring.usedFlags, event: queue.ring.availEvent });
          useOne(queue);
          seen.push({ change, flags: queue.ring.usedFlags, event: queue.ring.availEvent });
        }
      }
      return seen;
    }

    it('keeps used.flags 0 or 1 without EVENT_IDX [split-device-used-flags]', async () => {
      for (const { change, flags } of await notificationWords([])) {
        expect(flags).to.equal(change === 'disableNotifications' ? 1 : 0);
      }
    });

    it('keeps used.flags 0 with EVENT_IDX [split-device-used-flags-event]', async () => {
      const seen = await notificationWords([EVENT_IDX]);
      for (const { flags } of seen) expect(flags).to.equal(0);
      expect(new Set(seen.map(({ event }) => event)).size).to.be.above(1);
    });

    it('stands notifications without an available buffer [split-device-spurious]', async () => {
      const engine = await loadBeside(load);
      for (const features of [[], [EVENT_IDX]]) {
        const { device, ring, interrupts } = createDevice(engine, { features });
        const elements = device.createElements(4);
        for (let i = 0; i < 10; i++) {
          expect(device.pop()).to.equal(undefined);
          expect(device.popBurst(elements)).to.equal(0);
          expect(device.availableBytes(1, 1)).to.deep.equal({ in: 0, out: 0 });
          expect(device.enableNotifications()).to.equal(true);
          expect(device.shouldInterrupt()).to.equal(false);
        }
        expect(device.broken).to.equal(false);
        expect(ring.usedIdx).to.equal(0);
        expect(interrupts.count).to.equal(0);
        ring.offer([{ addr: DATA, len: 1 }]);
        expect(device.pop()?.id).to.equal(0);
        expect(device.pop()).to.equal(undefined);
        elements.free();
        device.release();
      }
    });
  });
});
