import { expect } from 'chai';
import { type DeviceQueue, type ErrorCode, Feature } from '../../src/index.js';
import { forEachEngine } from '../support/engines.js';
import {
  AVAIL,
  advance,
  DESC,
  INDIRECT,
  NEXT,
  type PackedDescriptor,
  type RawSegment,
  USED,
  WRAP,
  WRITE,
} from '../support/packed-ring.js';
import { PackedStage, type PackedStageOptions } from '../support/packed-stage.js';
import {
  breaks,
  CHUNK,
  chunks,
  DATA,
  EVENT_IDX,
  GUEST,
  HUGE,
  INDIRECT_DESC,
  refused,
  TABLES,
} from '../support/stage.js';

const { address } = DATA;
const TABLE = TABLES.address;
const U64 = 2n ** 64n;
const IN_ORDER = [Feature.VERSION_1, Feature.IN_ORDER];

/** A segment; what is not given is harmless. */
const seg = (fields: Partial<RawSegment> = {}): RawSegment => ({ addr: address, len: 1, ...fields });

/** `n` of them. */
const segs = (n: number, fields: Partial<RawSegment> = {}): RawSegment[] => new Array(n).fill(seg(fields));

describe('cases of a packed device', () => {
  forEachEngine((load) => {
    let stage: PackedStage;
    let device: DeviceQueue;

    const set = async (options: PackedStageOptions = {}) => {
      stage = await PackedStage.create(load, options);
      device = stage.device(options.device);
    };

    afterEach(() => stage.check());

    const offer = (segments: RawSegment[], id = 0) => stage.ring.offer(segments, id);

    /** Entries of the table at `TABLE`, or elsewhere. */
    const table = (entries: Partial<PackedDescriptor>[], at = TABLE) => {
      for (const [i, entry] of entries.entries())
        stage.ring.setDesc(i, { addr: BigInt(address), len: 1, id: 0, flags: 0, ...entry }, at);
    };

    /** Both sides as new. */
    const start = () => {
      device.reset();
      stage.clear();
    };

    /** The driver starts over and behaves: the device takes and returns its buffer. */
    const works = () => {
      start();
      const { ring } = stage;
      const id = device.size - 1;
      offer([seg({ len: 9, write: true })], id);
      expect(device.pop()).to.deep.equal({ id, out: [], in: [{ address, length: 9 }] });
      device.push({ id }, 9);
      expect(ring.desc(0)).to.deep.include({ len: 9, id, flags: AVAIL | USED | WRITE });
      start();
    };

    /** What `act` offers breaks the queue, whoever looks at it first; nothing is written to the ring. */
    const bad = (act: () => unknown, code: ErrorCode, ...texts: (string | number)[]) => {
      const elements = device.createElements(4);
      for (const look of [
        () => device.pop(),
        () => device.popBurst(elements),
        () => device.availableBytes(2 ** 40, 2 ** 40),
      ]) {
        start();
        act();
        const before = stage.u8.slice(0, GUEST);
        breaks(device, look, code, ...texts);
        expect(Buffer.compare(stage.u8.subarray(0, GUEST), before), 'memory changed').to.equal(0);
      }
      works();
    };

    describe('case 13: a chain without an end', () => {
      for (const size of [1, 2, 5, 8])
        for (const len of [0, 1])
          it(`segments of length ${len} that all go on, queue of ${size}`, async () => {
            await set({ size });
            bad(() => offer(segs(size, { len, flags: NEXT })), 'EPROTO', 'slot 0', 'not available');
          });

      it('a further slot that is not available in this lap', async () => {
        await set({ size: 2 });
        for (const mark of [0, USED, AVAIL | USED])
          bad(
            () => {
              offer(segs(2, { flags: NEXT }));
              stage.ring.setDesc(1, { addr: BigInt(address), len: 1, id: 0, flags: NEXT | mark });
            },
            'EPROTO',
            'slot 0',
            'not available',
          );
      });
    });

    describe('case 14: more is available than the ring has', () => {
      it('a chain that goes all the way round and on', async () => {
        await set({ size: 4 });
        bad(
          () => {
            offer(segs(4, { flags: NEXT }));
          },
          'EPROTO',
          'slot 0',
          'not available',
        );
      });

      it('whole laps in which nothing was used', async () => {
        await set({ size: 4 });
        const { ring } = stage;
        for (let i = 0; i < 4; i++) offer([seg()], i);
        const elements = device.createElements(16);
        expect(device.popBurst(elements)).to.equal(4);
        // Available under the other counter: the device has not used anything there.
        for (let i = 0; i < 4; i++) offer([seg()], i);
        expect(ring.desc(0).flags).to.equal(USED);
        breaks(device, () => device.popBurst(elements), 'EPROTO', 'in flight');
        works();
      });
    });

    describe('case 15: an id that is none', () => {
      for (const id of [8, 9, 0x7fff, 0x8000, 0xffff])
        it(`${id} of 8`, async () => {
          await set({ features: INDIRECT_DESC });
          bad(() => offer([seg()], id), 'EPROTO', `head ${id}`, '8 descriptors');
          bad(() => offer(segs(3), id), 'EPROTO', `head ${id}`);
          table([{}]);
          bad(() => offer([seg({ addr: TABLE, len: 16, flags: INDIRECT })], id), 'EPROTO', `head ${id}`);
        });

      it('the cursor neither passes it nor sticks without a word', async () => {
        await set();
        offer([seg()], 0);
        offer([seg()], 8);
        offer([seg()], 1);
        const elements = device.createElements(8);
        expect(device.popBurst(elements)).to.equal(1);
        expect(device.broken).to.equal(false);
        breaks(device, () => device.popBurst(elements), 'EPROTO', 'head 8');
        works();
      });

      it('of a chain that of its last descriptor counts', async () => {
        await set();
        offer(segs(3), 5);
        for (const slot of [0, 1]) stage.ring.setDesc(slot, { ...stage.ring.desc(slot), id: 0xffff });
        expect(device.pop()?.id).to.equal(5);
      });
    });

    describe('case 16: the driver makes buffers available again that it did not get back', () => {
      it('an id that is in flight', async () => {
        await set();
        offer([seg({ write: true })], 3);
        expect(device.pop()?.id).to.equal(3);
        offer([seg()], 3);
        breaks(device, () => device.pop(), 'EPROTO', 'head 3', 'still in flight', '1 elements');
        works();
      });

      it('twice in one burst', async () => {
        await set();
        offer([seg()], 3);
        offer([seg()], 3);
        const elements = device.createElements(8);
        expect(device.popBurst(elements)).to.equal(1);
        breaks(device, () => device.popBurst(elements), 'EPROTO', 'head 3', 'still in flight');
      });

      it('an id whose used descriptor is filled but not published', async () => {
        await set({ size: 3 });
        for (const id of [0, 1]) offer([seg()], id);
        for (const id of [0, 1]) expect(device.pop()?.id).to.equal(id);
        device.fill({ id: 0 }, 0, 0);
        device.fill({ id: 1 }, 0, 1);
        expect(device.inFlight).to.equal(2);
        offer([seg()], 0);
        breaks(device, () => device.pop(), 'EPROTO', 'head 0', 'still in flight', '2 elements');
      });

      it('slots that are in flight, with other ids', async () => {
        await set({ size: 4 });
        offer(segs(3), 0);
        expect(device.pop()?.id).to.equal(0);
        offer(segs(2), 1);
        breaks(device, () => device.pop(), 'EPROTO', 'slot 3', '3 slots');
        works();
      });

      it('never are more in flight than the ring has', async () => {
        await set({ size: 4 });
        for (let lap = 0; lap < 3; lap++) for (let id = 0; id < 4; id++) offer([seg()], id);
        const elements = device.createElements(64);
        // What was made available in the first laps was written over; none of the fourth is there.
        expect(device.popBurst(elements)).to.equal(4);
        expect(device.popBurst(elements)).to.equal(0);
        expect(device.inFlight).to.equal(4);
        works();
      });
    });

    describe('case 17: bad indirect tables', () => {
      const refer = (fields: Partial<RawSegment> = {}) =>
        offer([seg({ addr: TABLE, len: 32, flags: INDIRECT, ...fields })]);

      beforeEach(async () => {
        await set({ features: INDIRECT_DESC });
        table([{ len: 5 }, { len: 6 }]);
      });

      it('no error: one that is sound', () => {
        refer();
        expect(device.pop()?.out).to.deep.equal([
          { address, length: 5 },
          { address, length: 6 },
        ]);
      });

      const end = TABLE + TABLES.length;
      for (const [what, addr, len] of [
        ['crosses the end of a region', end - 16, 32],
        ['crosses it by a byte', end - 31, 32],
        ['begins at the end', end, 16],
        ['lies in the gap between two regions', end + 16, 16],
        ['spans the gap', end - 16, DATA.address - end + 32],
        ['is longer than any region', 0, 0xfffffff0],
        ['wraps the address space', U64 - 16n, 32],
        ['lies 2^32 above', 2n ** 32n + BigInt(TABLE), 32],
        ['lies 2^63 above', 2n ** 63n + BigInt(TABLE), 32],
      ] as const)
        it(`one that ${what}`, () => {
          const at = `0x${BigInt(addr).toString(16)}`;
          bad(() => refer({ addr, len }), 'EFAULT', at, `length ${len}`, 'not in one region');
        });

      for (const len of [0, 1, 8, 15, 17, 24, 0xffffffff])
        it(`one of ${len} bytes`, () => {
          bad(() => refer({ len }), 'EPROTO', `0x${TABLE.toString(16)}`, `length ${len}`, 'multiple of 16');
        });

      it('INDIRECT together with NEXT', () => {
        bad(
          () => offer([seg({ addr: TABLE, len: 32, flags: INDIRECT | NEXT }), seg()]),
          'EPROTO',
          'descriptor 0',
          'INDIRECT with NEXT',
        );
      });

      it('a table in a list that NEXT links', () => {
        bad(
          () => offer([seg(), seg({ addr: TABLE, len: 32, flags: INDIRECT })]),
          'EPROTO',
          'descriptor 1',
          'INDIRECT behind another',
        );
      });

      it('INDIRECT that was not negotiated', async () => {
        await set();
        bad(() => refer(), 'EPROTO', 'descriptor 0', 'not negotiated');
      });

      it('no error: at any byte, up to the end of a region', () => {
        for (const at of [TABLE + 1, TABLE + 2, TABLE + 7, end - 32]) {
          table([{ len: 5 }, { addr: BigInt(address + 1), len: 6, flags: WRITE }], at);
          refer({ addr: at });
          const element = device.pop();
          expect(element?.out).to.deep.equal([{ address, length: 5 }]);
          expect(element?.in).to.deep.equal([{ address: address + 1, length: 6 }]);
          device.push({ id: 0 }, 6);
        }
      });

      it('no error: WRITE in the descriptor that refers to it is ignored', () => {
        refer({ flags: INDIRECT | WRITE });
        expect(device.pop()?.out).to.have.length(2);
      });
    });

    describe('case 18: long chains', () => {
      beforeEach(() => set({ features: INDIRECT_DESC }));

      it('no error: as many as the queue has', () => {
        offer(segs(8), 1);
        expect(device.pop()?.out).to.have.length(8);
      });

      it('a table of as many', () => {
        table(new Array(8).fill({}));
        offer([seg({ addr: TABLE, len: 128, flags: INDIRECT })]);
        expect(device.pop()?.out).to.have.length(8);
      });

      it('a table of more than the queue has, whatever is in it', () => {
        for (const flags of [0, NEXT, WRITE, 0xffff]) {
          table(new Array(9).fill({ flags }));
          bad(
            () => offer([seg({ addr: TABLE, len: 144, flags: INDIRECT })]),
            'E2BIG',
            'head 0',
            'queue size 8',
          );
        }
      });

      it('one as long as a length can say ends soon', () => {
        table(new Array(256).fill({ len: 0 }));
        bad(() => offer([seg({ addr: TABLE, len: 4096, flags: INDIRECT })]), 'E2BIG', 'queue size 8');
      });
    });

    describe('case 19: how much is available', () => {
      it('over a table of 2 and a chain of 5 in a ring of 8, across its end', async () => {
        await set({ features: INDIRECT_DESC });
        for (let i = 0; i < 4; i++) {
          offer([seg()]);
          device.push({ id: device.pop()?.id as number }, 0);
        }
        table([{ len: 10 }, { len: 20, flags: WRITE }]);
        offer([seg({ addr: TABLE, len: 32, flags: INDIRECT })], 1);
        offer(
          [1, 2, 3, 4, 5].map((len) => seg({ len, write: len > 2 })),
          2,
        );
        const all = { in: 20 + 3 + 4 + 5, out: 10 + 1 + 2 };
        expect(device.availableBytes(2 ** 32, 2 ** 32)).to.deep.equal(all);
        // Chains count as a whole, and both limits must be reached.
        expect(device.availableBytes(1, 1)).to.deep.equal({ in: 20, out: 10 });
        expect(device.availableBytes(20, 11)).to.deep.equal(all);
        expect(device.availableBytes(0, 0)).to.deep.equal({ in: 0, out: 0 });
        // Nothing was taken.
        expect(device.inFlight).to.equal(0);
        expect(device.popBurst(device.createElements(8))).to.equal(2);
        expect(device.availableBytes(1, 1)).to.deep.equal({ in: 0, out: 0 });
      });

      it('up to a bad chain behind good ones', async () => {
        await set();
        offer([seg({ len: 3 })]);
        offer([seg({ len: 4 })], 8);
        expect(device.availableBytes(100, 100)).to.deep.equal({ in: 0, out: 3 });
        expect(device.broken).to.equal(false);
        expect(device.pop()?.id).to.equal(0);
        breaks(device, () => device.availableBytes(100, 100), 'EPROTO', 'head 8');
      });

      it('in bounded steps: a driver can let every slot refer to the same long table', async () => {
        const size = 2048;
        await set({ size, features: INDIRECT_DESC });
        table(new Array(size).fill({}), DATA.address);
        for (let id = 0; id < size; id++)
          offer([seg({ addr: DATA.address, len: 16 * size, flags: INDIRECT })], id);
        // 2048 tables of 2048 are more than 2^20.
        expect(device.availableBytes(2 ** 40, 2 ** 40)).to.deep.equal({ in: 0, out: 2 ** 20 });
      });

      it('sums that need more than 32 bits', async () => {
        await set({ device: { regions: [...chunks(2 ** 32)] } });
        for (let i = 0; i < 8; i++) offer([seg({ addr: HUGE, len: 0xffffffff, write: i < 5 })], i);
        expect(device.availableBytes(2 ** 53, 2 ** 53)).to.deep.equal({
          in: 5 * 0xffffffff,
          out: 3 * 0xffffffff,
        });
      });
    });

    describe('case 20: the end of the ring', () => {
      it('a chain at the last slot goes on at slot 0', async () => {
        await set({ size: 4 });
        const { ring } = stage;
        for (let lap = 0; lap < 3; lap++)
          for (const n of [3, 2, 2, 1]) {
            const first = offer(segs(n, { write: true, len: 2 }), 2);
            expect(device.pop()?.in).to.have.length(n);
            expect(device.pop()).to.equal(undefined);
            const wrap = ring.used & WRAP;
            device.push({ id: 2 }, 2 * n);
            const used = ring.desc(first);
            expect(used).to.deep.include({ id: 2, len: 2 * n });
            expect(used.flags).to.equal(wrap ? AVAIL | USED | WRITE : WRITE);
            ring.used = advance(ring.used, n, 4);
          }
      });

      it('NEXT and INDIRECT in a table are ignored', async () => {
        await set({ features: INDIRECT_DESC });
        table([
          { len: 1, flags: 0xffff & ~WRITE, id: 0xffff },
          { len: 2, flags: NEXT | WRITE },
          { len: 3, flags: INDIRECT | WRITE | AVAIL },
        ]);
        offer([seg({ addr: TABLE, len: 48, flags: INDIRECT })], 4);
        expect(device.pop()).to.deep.equal({
          id: 4,
          out: [{ address, length: 1 }],
          in: [
            { address, length: 2 },
            { address, length: 3 },
          ],
        });
      });

      it('size 6 works', async () => {
        await set({ size: 6 });
        works();
      });

      it('sizes of 0 and more than 32768 are refused, whatever is no integer too', async () => {
        await set();
        const { areas, host } = stage;
        for (const size of [0, 32769, -1, 1.5, Number.NaN, '8', null, undefined, 2 ** 32, 8n]) {
          const options = { ring: 'packed' as const, size: size as number, areas };
          refused(() => host.deviceQueue(options), 'EINVAL', 'size');
          refused(() => host.driverQueue(options), 'EINVAL', 'size');
        }
      });
    });

    describe('case 21: in-order use', () => {
      it('fills out of order are flushed in order, each chain by its own length', async () => {
        await set({ size: 10, features: IN_ORDER });
        const { ring } = stage;
        offer([seg({ write: true, len: 5 })], 0);
        offer(segs(3, { write: true, len: 5 }), 1);
        offer(segs(2, { write: true, len: 5 }), 2);
        offer([seg({ write: true, len: 5 })], 3);
        for (const id of [0, 1, 2, 3]) expect(device.pop()?.id).to.equal(id);
        const isUsed = (slot: number) => (ring.desc(slot).flags & (AVAIL | USED)) === (AVAIL | USED);
        device.push({ id: 2 }, 1);
        device.push({ id: 1 }, 2);
        expect([0, 1, 4, 6].map(isUsed)).to.deep.equal([false, false, false, false]);
        expect(device.inFlight).to.equal(4);
        device.push({ id: 0 }, 3);
        // None is used completely, so each has a descriptor of its own.
        expect([0, 1, 4].map((slot) => [ring.desc(slot).id, ring.desc(slot).len])).to.deep.equal([
          [0, 3],
          [1, 2],
          [2, 1],
        ]);
        expect([0, 1, 2, 3, 4, 5, 6].map(isUsed)).to.deep.equal([
          true,
          true,
          false,
          false,
          true,
          false,
          false,
        ]);
        expect(device.inFlight).to.equal(1);
        device.push({ id: 3 }, 5);
        expect(isUsed(6)).to.equal(true);
      });

      it('a batch has one descriptor, where its first one would be', async () => {
        await set({ size: 10, features: IN_ORDER });
        const { ring } = stage;
        for (let lap = 0; lap < 4; lap++) {
          const first = ring.available;
          offer([seg({ write: true, len: 5 })], 0);
          offer(segs(3), 1);
          offer(segs(2, { write: true, len: 5 }), 2);
          const elements = device.createElements(4);
          expect(device.popBurst(elements)).to.equal(3);
          const before = ring.descriptorBytes;
          elements.setWritten(0, 5);
          elements.setWritten(2, 7);
          device.pushBurst(elements);
          const mark = first & WRAP ? AVAIL | USED : 0;
          expect(ring.desc(first & 0x7fff)).to.deep.include({ id: 2, len: 7, flags: mark | WRITE });
          // No other slot has changed.
          const after = ring.descriptorBytes;
          for (let slot = 0; slot < 10; slot++)
            if (slot !== (first & 0x7fff))
              expect(after.subarray(16 * slot, 16 * slot + 16), `slot ${slot}`).to.deep.equal(
                before.subarray(16 * slot, 16 * slot + 16),
              );
          elements.free();
        }
      });

      it('with a driver of ours: fills in any order, chains of all lengths, lap after lap', async () => {
        await set({ size: 7, features: [...IN_ORDER, Feature.EVENT_IDX] });
        const driver = stage.driver();
        let token = 0;
        let expected = 0;
        for (let round = 0; round < 60; round++) {
          while (driver.add([], new Array(1 + ((token * 5) % 3)).fill({ address, length: 4 }), token))
            token++;
          const taken = [];
          for (let element = device.pop(); element; element = device.pop()) taken.push(element);
          // The youngest first; some of them used completely.
          for (const { id, in: in_ } of taken.reverse()) device.fill({ id }, id % 2 ? 4 * in_.length : 3, 0);
          device.flush(1);
          for (let got = driver.getBuf(); got; got = driver.getBuf()) expect(got.token).to.equal(expected++);
        }
        expect(expected).to.equal(token);
        expect(driver.numFree).to.equal(7);
        expect(expected).to.be.above(150);
      });
    });

    it('case 22: size 5, a thousand operations', async () => {
      await set({ size: 5 });
      const { ring } = stage;
      let at = WRAP;
      const inHand: { id: number; slots: number }[] = [];
      let id = 0;
      for (let i = 0; i < 1000; i++) {
        const n = 1 + ((i * 3) % 4);
        if (inHand.reduce((sum, { slots }) => sum + slots, 0) + n <= 5) {
          while (inHand.some((element) => element.id === id)) id = (id + 1) % 5;
          offer(segs(n, { write: true, len: 3 }), id);
          expect(device.pop(), `pop ${i}`).to.deep.include({ id });
          inHand.push({ id, slots: n });
          if (i % 3 !== 0) continue;
        }
        const element = inHand.pop() as (typeof inHand)[0];
        device.push({ id: element.id }, 3);
        const mark = at & WRAP ? AVAIL | USED : 0;
        expect(ring.desc(at & 0x7fff), `push ${i}`).to.deep.include({ id: element.id, flags: mark | WRITE });
        at = advance(at, element.slots, 5);
      }
    });

    describe('case 25: the used length', () => {
      it('is what was written, not how large the buffer is; without any WRITE is missing', async () => {
        await set();
        const { ring } = stage;
        for (const written of [0, 1, 99, 100]) {
          const slot = offer([seg({ len: 50 }), seg({ len: 100, write: true })]);
          device.pop();
          device.push({ id: 0 }, written);
          const flags = AVAIL | USED | (written > 0 ? WRITE : 0);
          expect(ring.desc(slot)).to.deep.include({ id: 0, len: written, flags });
        }
        expect(device.stats()).to.include({ bytesIn: 200, bytesOut: 200, completed: 4 });
        offer([seg({ len: 50 }), seg({ len: 100, write: true })]);
        device.pop();
        const before = ring.descriptorBytes;
        refused(
          () => device.push({ id: 0 }, 101),
          'EINVAL',
          'written 101',
          'writable length 100',
          'element 0',
        );
        expect(ring.descriptorBytes).to.deep.equal(before);
        device.push({ id: 0 }, 100);
      });

      it('is 0 for elements of a burst that nobody wrote to', async () => {
        await set();
        for (let id = 0; id < 4; id++) offer([seg({ len: 100, write: true })], id);
        const elements = device.createElements(4);
        elements.words.fill(0xffffffff);
        device.popBurst(elements);
        elements.setWritten(2, 7);
        device.pushBurst(elements);
        for (let id = 0; id < 4; id++)
          expect(stage.ring.desc(id)).to.deep.include({ id, len: id === 2 ? 7 : 0 });
      });
    });

    describe('case 26: order and empty segments', () => {
      it('a readable segment after a writable one', async () => {
        await set({ features: INDIRECT_DESC });
        const at = `readable segment at 0x${(address + 4).toString(16)}`;
        for (const len of [3, 0]) {
          const list = [seg({ write: true }), seg({ addr: address + 4, len }), seg({ write: true })];
          bad(() => offer(list), 'EPROTO', at, `length ${len}`);
          table([{ flags: WRITE }, { addr: BigInt(address + 4), len }]);
          bad(() => offer([seg({ addr: TABLE, len: 32, flags: INDIRECT })]), 'EPROTO', at, `length ${len}`);
        }
      });

      it('a segment of length 0 is passed on, wherever it points', async () => {
        await set();
        offer([
          seg({ len: 0 }),
          seg({ addr: U64 - 1n, len: 0 }),
          seg({ len: 4 }),
          seg({ addr: 2n ** 40n, len: 0, write: true }),
        ]);
        offer([seg({ len: 0, write: true })], 1);
        const nothing = { address: 0, length: 0 };
        expect(device.pop()).to.deep.equal({
          id: 0,
          out: [nothing, nothing, { address, length: 4 }],
          in: [nothing],
        });
        expect(device.pop()).to.deep.equal({ id: 1, out: [], in: [nothing] });
        for (const id of [0, 1]) {
          refused(() => device.push({ id }, 1), 'EINVAL', 'writable length 0');
          device.push({ id }, 0);
        }
      });
    });

    describe('case 27: segments that leave the regions', () => {
      const end = DATA.address + DATA.length;
      const gap = TABLE + TABLES.length;
      for (const [what, addr, len] of [
        ['end one past a region', end - 15, 16],
        ['begin at the end of one', end, 1],
        ['begin one before a region', DATA.address - 1, 2],
        ['lie in a gap', gap, 1],
        ['span a gap', gap - 1, DATA.address - gap + 2],
        ['wrap to address 0', U64 - 1n, 2],
        ['wrap to a region', U64 - 16n, 0xffffffff],
        ['wrap all of the address space', U64 - 1n, 0xffffffff],
        ['lie 2^32 above one', BigInt(address) + 2n ** 32n, 1],
        ['lie 2^63 above one', BigInt(address) + 2n ** 63n, 1],
        ['have all bits set', U64 - 1n, 1],
        ['are as long as can be', address, 0xffffffff],
      ] as const)
        it(`because they ${what}`, async () => {
          await set({ features: INDIRECT_DESC });
          const texts = [`segment at 0x${BigInt(addr).toString(16)}`, `length ${len}`];
          for (const write of [false, true])
            bad(() => offer([seg({ addr, len, write })]), 'EFAULT', ...texts);
          // The same behind a good one, and in a table.
          bad(() => offer([seg(), seg({ addr, len })]), 'EFAULT', ...texts);
          table([{}, { addr: BigInt(addr), len }]);
          bad(() => offer([seg({ addr: TABLE, len: 32, flags: INDIRECT })]), 'EFAULT', ...texts);
        });

      it('no error: all of a region', async () => {
        await set();
        offer([seg({ addr: DATA.address, len: DATA.length, write: true })]);
        offer([seg({ addr: end - 1 })], 1);
        expect(device.pop()?.in).to.deep.equal([DATA]);
        expect(device.pop()?.out).to.deep.equal([{ address: end - 1, length: 1 }]);
      });

      it('no error: a region that ends where the address space ends', async () => {
        const top = U64 - 0x1000n;
        await set({
          device: {
            regions: [
              { guest: 0, length: TABLE, local: 0 },
              { guest: top, length: 0x1000, local: address + 64 },
              { guest: address, length: 64, local: address },
            ],
          },
        });
        offer([seg({ addr: top, len: 0x1000 })]);
        offer([seg({ addr: U64 - 1n })], 1);
        expect(device.pop()?.out).to.deep.equal([{ address: address + 64, length: 0x1000 }]);
        expect(device.pop()?.out).to.deep.equal([{ address: address + 64 + 0xfff, length: 1 }]);
        // Region 0 does not adjoin it.
        bad(() => offer([seg({ addr: U64 - 1n, len: 2 })]), 'EFAULT', '0xffffffffffffffff', 'length 2');
      });

      it('no error: regions that adjoin in guest memory give pieces in order', async () => {
        await set({
          device: {
            regions: [
              { guest: 0, length: 0x8000, local: 0 },
              { guest: 2n ** 32n - 8n, length: 16, local: address + 0x100 },
              { guest: 2n ** 32n - 16n, length: 8, local: address + 0x200 },
              { guest: 2n ** 32n + 8n, length: 8, local: address + 64 },
              { guest: address, length: 64, local: address },
            ],
          },
        });
        offer([seg({ addr: 2n ** 32n - 16n, len: 32, write: true })]);
        expect(device.pop()?.in).to.deep.equal([
          { address: address + 0x200, length: 8 },
          { address: address + 0x100, length: 16 },
          { address: address + 64, length: 8 },
        ]);
        device.push({ id: 0 }, 32);
        bad(() => offer([seg({ addr: 2n ** 32n - 9n, len: 26 })]), 'EFAULT', '0xfffffff7', 'length 26');
      });

      it('no regions: everything is bad, even if the ring itself is reachable', async () => {
        await set();
        device.setRegions([]);
        offer([seg()]);
        breaks(device, () => device.pop(), 'EFAULT', 'length 1');
      });
    });

    it('case 28: lengths of 2^31 and more are unsigned', async () => {
      await set({ device: { regions: [...chunks(2 ** 32)] } });
      const len = 0x80000005;
      offer([seg({ addr: HUGE, len, write: true })], 1);
      expect(device.pop()?.in.at(-1)).to.deep.equal({ address: 0, length: 5 });
      device.push({ id: 1 }, len);
      expect(stage.ring.desc(0)).to.deep.include({ id: 1, len });
      const half = seg({ addr: HUGE, len: 2 ** 31, write: true });
      offer([half, half], 2);
      expect(device.pop()?.in).to.have.length(2 ** 32 / CHUNK);
      device.push({ id: 2 }, 0xffffffff);
      expect(device.stats()).to.include({ bytesIn: len + 0xffffffff });
      bad(() => offer([half, { ...half, len: 2 ** 31 + 1 }]), 'E2BIG', 'head 0', '4294967297 bytes');
    });

    describe('case 29: a full ring', () => {
      for (const size of [1, 2, 7, 256])
        it(`of ${size} is not taken for an empty one`, async () => {
          await set({ size, features: EVENT_IDX });
          const driver = stage.driver();
          const elements = device.createElements(size);
          const completions = driver.createCompletions(size);
          const burst = driver.createBurst(size);
          // Several times round, from every side: positions equal but for the wrap counter.
          for (let round = 0; round < 3; round++) {
            for (let i = 0; i < size; i++) burst.out(address, 1).end(i);
            expect(driver.addBurst(burst)).to.equal(size);
            expect(driver.numFree).to.equal(0);
            expect(driver.add([{ address, length: 1 }], [], 9)).to.equal(false);
            expect(device.enableNotifications()).to.equal(false);
            expect(device.popBurst(elements)).to.equal(size);
            expect(device.popBurst(elements)).to.equal(0);
            expect(device.enableNotifications()).to.equal(true);
            expect(device.inFlight).to.equal(size);
            expect(driver.moreUsed()).to.equal(false);
            expect(device.rewind(size)).to.equal(true);
            expect(device.inFlight).to.equal(0);
            expect(device.popBurst(elements)).to.equal(size);
            expect(device.pushBurst(elements)).to.equal(size);
            expect(driver.moreUsed()).to.equal(true);
            expect(driver.getBurst(completions)).to.equal(size);
            expect(driver.getBuf()).to.equal(undefined);
            expect(driver.numFree).to.equal(size);
          }
        });
    });

    it('case 32: a reset of the device forgets what is in flight', async () => {
      await set({ features: [Feature.INDIRECT_DESC, Feature.EVENT_IDX] });
      const driver = stage.driver();
      for (let token = 0; token < 4; token++)
        driver.add([{ address, length: 1 }], [{ address, length: 4 }], token);
      device.pop();
      device.pop();
      device.fill({ id: 0 }, 0, 0);
      device.reset();
      expect(device.inFlight).to.equal(0);
      refused(() => device.push({ id: 1 }, 0), 'EINVAL', 'element 1', 'not in flight');
      refused(() => device.flush(1), 'EINVAL', '1 slots');
      expect(device.rewind(1)).to.equal(false);
      expect(device.shouldInterrupt()).to.equal(false);
      expect(driver.reset()).to.deep.equal([0, 1, 2, 3]);
      expect(driver.tableBytes).to.equal(0);
      expect(device.pop()).to.equal(undefined);
      works();
    });

    it('the events that a device asks for name the next slot and its lap', async () => {
      await set({ size: 3, features: EVENT_IDX });
      device.disableNotifications();
      device.enableNotifications();
      let at = WRAP;
      for (let i = 0; i < 10; i++) {
        expect(stage.ring.deviceEvent).to.deep.equal({ offWrap: at, flags: DESC });
        offer([seg()], 0);
        device.push(device.pop() as { id: number }, 0);
        at = advance(at, 1, 3);
      }
    });
  });
});
