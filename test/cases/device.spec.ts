import { expect } from 'chai';
import { type DeviceQueue, type ErrorCode, Feature } from '../../src/index.js';
import { forEachEngine } from '../support/engines.js';
import { type Descriptor, INDIRECT, NEXT, WRITE } from '../support/split-ring.js';
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
  Stage,
  type StageOptions,
  TABLES,
} from '../support/stage.js';

const { address } = DATA;
const TABLE = TABLES.address;
const U64 = 2n ** 64n;

/** A descriptor; what is not given is harmless. */
const desc = (
  fields: { addr?: number | bigint; len?: number; flags?: number; next?: number } = {},
): Descriptor => ({
  len: 1,
  flags: 0,
  next: 0,
  ...fields,
  addr: BigInt(fields.addr ?? address),
});

describe('cases of a split device', () => {
  forEachEngine((load) => {
    let stage: Stage;
    let device: DeviceQueue;

    const set = async (options: StageOptions = {}) => {
      stage = await Stage.create(load, options);
      device = stage.device(options.device);
    };

    afterEach(() => stage.check());

    /** Writes descriptors of the queue's own table. */
    const write = (descriptors: Record<number, Descriptor>, table?: number) => {
      for (const [index, d] of Object.entries(descriptors)) stage.ring.setDesc(Number(index), d, table);
    };

    /** The driver starts over and behaves: the device takes and returns its buffer. */
    const works = () => {
      const { ring } = stage;
      start();
      const before = ring.desc(0);
      ring.setDesc(0, desc({ len: 9, flags: WRITE }));
      ring.makeAvailable(0);
      const element = device.pop();
      expect(element).to.deep.equal({ id: 0, out: [], in: [{ address, length: 9 }] });
      device.push({ id: 0 }, 9);
      expect(ring.usedIdx).to.equal(1);
      expect(ring.usedRing(0)).to.deep.equal({ id: 0, len: 9 });
      ring.setDesc(0, before);
      start();
    };

    /** Both sides as new, but for the descriptors. */
    const start = () => {
      const { ring, areas, size } = stage;
      device.reset();
      stage.u8.fill(0, areas.driver, areas.driver + 6 + 2 * size);
      stage.u8.fill(0, areas.device, areas.device + 6 + 8 * size);
      ring.available = 0;
    };

    /** The chain of `head` breaks the queue, whoever looks at it first; nothing is written to the ring. */
    const bad = (head: number, code: ErrorCode, ...texts: (string | number)[]) => {
      const elements = device.createElements(4);
      // Not the first chain: the engines remember the region of the last one, and take a shorter way.
      works();
      for (const look of [
        () => device.pop(),
        () => device.popBurst(elements),
        () => device.availableBytes(2 ** 40, 2 ** 40),
      ]) {
        start();
        stage.ring.makeAvailable(head);
        const before = stage.u8.slice(0, GUEST);
        breaks(device, look, code, ...texts);
        expect(Buffer.compare(stage.u8.subarray(0, GUEST), before), 'memory changed').to.equal(0);
      }
      works();
    };

    const fine = (head: number) => {
      stage.ring.makeAvailable(head);
      return device.pop();
    };

    describe('case 13: a chain that loops', () => {
      for (const size of [1, 8, 2048])
        it(`next is itself, length 0, queue of ${size}`, async () => {
          await set({ size });
          write({ 0: desc({ len: 0, flags: NEXT, next: 0 }) });
          bad(0, 'ELOOP', 'head 0', `more than ${size} descriptors`);
        });

      it('next leads back after a few', async () => {
        await set();
        write({
          5: desc({ flags: NEXT, next: 2 }),
          2: desc({ flags: NEXT, next: 7 }),
          7: desc({ flags: NEXT, next: 2 }),
        });
        bad(5, 'ELOOP', 'head 5', 'more than 8 descriptors');
      });

      it('all descriptors in a ring', async () => {
        await set({ size: 8 });
        for (let i = 0; i < 8; i++) write({ [i]: desc({ flags: NEXT | WRITE, next: (i + 1) % 8 }) });
        bad(3, 'ELOOP', 'head 3', 'more than 8 descriptors');
      });

      it('no loop: all descriptors in one chain', async () => {
        await set({ size: 8 });
        for (let i = 0; i < 8; i++) write({ [i]: desc({ flags: i < 7 ? NEXT : 0, next: i + 1 }) });
        expect(fine(0)?.out).to.have.length(8);
      });
    });

    describe('case 14: avail.idx ahead by more than the ring size', () => {
      for (const [idx, from] of [
        [9, 0],
        [32768, 0],
        [65535, 0],
      ])
        it(`${idx} after ${from}`, async () => {
          await set();
          write({ 0: desc() });
          const elements = device.createElements(64);
          for (const look of [
            () => device.pop(),
            () => device.popBurst(elements),
            () => device.availableBytes(1, 1),
          ]) {
            stage.ring.availIdx = idx;
            breaks(device, look, 'EPROTO', `avail.idx ${idx}`, `ahead of ${from}`);
          }
          works();
        });

      it('going back is the same as running ahead', async () => {
        await set();
        write({ 0: desc() });
        expect(fine(0)).to.not.equal(undefined);
        stage.ring.availIdx = 0;
        breaks(device, () => device.pop(), 'EPROTO', 'avail.idx 0', 'ahead of 1');
        works();
      });

      it('in the middle of a burst: what was there comes first', async () => {
        await set();
        for (let i = 0; i < 8; i++) {
          write({ [i]: desc() });
          stage.ring.makeAvailable(i);
        }
        const elements = device.createElements(4);
        expect(device.popBurst(elements)).to.equal(4);
        stage.ring.availIdx = 13;
        breaks(device, () => device.popBurst(elements), 'EPROTO', 'avail.idx 13', 'ahead of 4');
      });

      it('no error: just as far as the ring goes', async () => {
        await set();
        for (let i = 0; i < 8; i++) write({ [i]: desc() });
        for (let i = 0; i < 8; i++) stage.ring.makeAvailable(i);
        expect(device.popBurst(device.createElements(16))).to.equal(8);
      });
    });

    describe('case 15: avail.ring names a head that is none', () => {
      for (const head of [8, 9, 0x7fff, 0x8000, 0x8001, 0xffff])
        it(`${head} of 8`, async () => {
          await set();
          // A descriptor that would do, where one would look for it: behind everything that is in use.
          if (head >= 0x8000) write({ [head]: desc() });
          bad(head, 'EPROTO', `head ${head}`, '8 descriptors');
        });

      it('the cursor neither passes it nor sticks without a word', async () => {
        await set();
        write({ 0: desc(), 1: desc() });
        const { ring } = stage;
        ring.makeAvailable(0);
        ring.makeAvailable(8);
        ring.makeAvailable(1);
        const elements = device.createElements(8);
        expect(device.popBurst(elements)).to.equal(1);
        expect(device.broken).to.equal(false);
        breaks(device, () => device.popBurst(elements), 'EPROTO', 'head 8');
        // A reset starts at index 0, where the driver has to start too.
        expect(device.pop()?.id).to.equal(0);
        breaks(device, () => device.pop(), 'EPROTO', 'head 8');
        works();
      });
    });

    describe('case 16: the driver makes buffers available again that it did not get back', () => {
      it('a head that is in flight', async () => {
        await set();
        write({ 3: desc({ flags: WRITE }) });
        expect(fine(3)?.id).to.equal(3);
        stage.ring.makeAvailable(3);
        breaks(device, () => device.pop(), 'EPROTO', 'head 3', 'still in flight', '1 elements');
        works();
      });

      it('twice in one burst', async () => {
        await set();
        write({ 3: desc() });
        stage.ring.makeAvailable(3);
        stage.ring.makeAvailable(3);
        const elements = device.createElements(8);
        expect(device.popBurst(elements)).to.equal(1);
        breaks(device, () => device.popBurst(elements), 'EPROTO', 'head 3', 'still in flight');
      });

      it('a head whose used entry is written but not published', async () => {
        await set({ size: 2 });
        write({ 0: desc(), 1: desc() });
        for (const head of [0, 1]) expect(fine(head)?.id).to.equal(head);
        device.fill({ id: 0 }, 0, 0);
        device.fill({ id: 1 }, 0, 1);
        expect(device.inFlight).to.equal(2);
        stage.ring.makeAvailable(0);
        breaks(device, () => device.pop(), 'EPROTO', 'head 0', 'still in flight', '2 elements');
      });

      it('never are more in flight than the ring has', async () => {
        await set({ size: 4 });
        for (let i = 0; i < 4; i++) write({ [i]: desc() });
        for (let i = 0; i < 4; i++) expect(fine(i)?.id).to.equal(i);
        for (let i = 0; i < 4; i++) stage.ring.makeAvailable(i);
        const elements = device.createElements(64);
        breaks(device, () => device.popBurst(elements), 'EPROTO', 'head 0', '4 elements in flight');
      });

      it('a head that was detached may come again', async () => {
        await set();
        write({ 3: desc() });
        const element = fine(3);
        device.detach({ id: element?.id as number });
        expect(fine(3)?.id).to.equal(3);
      });
    });

    describe('case 17: bad indirect tables', () => {
      const refer = (fields: Parameters<typeof desc>[0]) =>
        write({ 0: desc({ addr: TABLE, len: 32, flags: INDIRECT, ...fields }) });
      const entry = desc({ len: 5 });

      beforeEach(async () => {
        await set({ features: INDIRECT_DESC });
        write({ 0: { ...entry, flags: NEXT, next: 1 }, 1: entry }, TABLE);
      });

      it('no error: one that is sound', () => {
        refer({});
        expect(fine(0)?.out).to.deep.equal([
          { address, length: 5 },
          { address, length: 5 },
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
          refer({ addr, len });
          bad(0, 'EFAULT', `0x${BigInt(addr).toString(16)}`, `length ${len}`, 'not in one region');
        });

      it('one that spans two regions that adjoin', async () => {
        await set({
          features: INDIRECT_DESC,
          device: {
            regions: [
              { guest: 0, length: TABLE + 16, local: 0 },
              { guest: TABLE + 16, length: 256, local: TABLE + 64 },
              { guest: address, length: 64, local: address },
            ],
          },
        });
        refer({});
        bad(0, 'EFAULT', `0x${TABLE.toString(16)}`, 'length 32', 'not in one region');
      });

      for (const len of [0, 1, 8, 15, 17, 24, 0xffffffff])
        it(`one of ${len} bytes`, () => {
          refer({ len });
          bad(0, 'EPROTO', `0x${TABLE.toString(16)}`, `length ${len}`, 'multiple of 16');
        });

      it('a table inside a table', () => {
        refer({});
        write({ 1: desc({ addr: TABLE + 64, len: 16, flags: INDIRECT }) }, TABLE);
        bad(0, 'EPROTO', 'descriptor 1', 'flags 0x4', 'table inside a table');
      });

      it('a table that refers to itself', () => {
        refer({ len: 16 });
        write({ 0: desc({ addr: TABLE, len: 16, flags: INDIRECT }) }, TABLE);
        bad(0, 'EPROTO', 'descriptor 0', 'table inside a table');
      });

      it('INDIRECT together with NEXT', () => {
        refer({ flags: INDIRECT | NEXT, next: 1 });
        bad(0, 'EPROTO', 'descriptor 0', 'flags 0x5', 'INDIRECT with NEXT');
      });

      it('INDIRECT that was not negotiated', async () => {
        await set();
        refer({});
        bad(0, 'EPROTO', 'descriptor 0', 'flags 0x4', 'not negotiated');
      });

      it('next out of the table, though inside the queue', () => {
        refer({});
        write({ 0: { ...entry, flags: NEXT, next: 2 } }, TABLE);
        bad(0, 'EPROTO', 'next is 2', '2 descriptors');
      });

      it('next out of the queue', async () => {
        write({ 0: desc({ flags: NEXT, next: 8 }) });
        bad(0, 'EPROTO', 'next is 8', '8 descriptors');
        write({ 0: desc({ flags: NEXT, next: 0xffff }) });
        bad(0, 'EPROTO', 'next is 65535', '8 descriptors');
      });

      it('no error: at any byte, up to the end of a region', () => {
        for (const at of [TABLE + 1, TABLE + 2, TABLE + 7, end - 32]) {
          write(
            { 0: { ...entry, flags: NEXT, next: 1 }, 1: desc({ addr: address + 1, len: 6, flags: WRITE }) },
            at,
          );
          refer({ addr: at });
          const element = fine(0);
          expect(element?.in).to.deep.equal([{ address: address + 1, length: 6 }]);
          device.push({ id: 0 }, 6);
        }
      });

      it('no error: WRITE in the descriptor that refers to it is ignored', () => {
        refer({ flags: INDIRECT | WRITE });
        expect(fine(0)?.out).to.have.length(2);
      });
    });

    describe('case 18: long chains', () => {
      beforeEach(() => set({ features: INDIRECT_DESC }));

      it('a table of 4 that loops ends by its own length', () => {
        write({ 0: desc({ addr: TABLE, len: 64, flags: INDIRECT }) });
        for (const back of [0, 3]) {
          for (let i = 0; i < 4; i++) write({ [i]: desc({ flags: NEXT, next: i + 1 }) }, TABLE);
          write({ 3: desc({ flags: NEXT, next: back }) }, TABLE);
          bad(0, 'ELOOP', 'head 0', 'more than 4 descriptors');
        }
        write({ 0: desc({ len: 0, flags: NEXT, next: 0 }) }, TABLE);
        bad(0, 'ELOOP', 'head 0', 'more than 4 descriptors');
      });

      const chain = (n: number, table: number | undefined, first = 0) => {
        for (let i = 0; i < n; i++)
          write({ [first + i]: desc({ flags: i < n - 1 ? NEXT : 0, next: first + i + 1 }) }, table);
      };

      it('a table longer than the queue, with a chain as long as the queue', () => {
        write({ 0: desc({ addr: TABLE, len: 16 * 20, flags: INDIRECT }) });
        chain(8, TABLE);
        expect(fine(0)?.out).to.have.length(8);
      });

      it('a table with a chain that is longer than the queue', () => {
        write({ 0: desc({ addr: TABLE, len: 16 * 20, flags: INDIRECT }) });
        chain(9, TABLE);
        bad(0, 'E2BIG', 'head 0', 'queue size 8');
      });

      it('a table of 256 that loops in a queue of 8', () => {
        write({ 0: desc({ addr: TABLE, len: 4096, flags: INDIRECT }) });
        write({ 0: desc({ flags: NEXT, next: 255 }), 255: desc({ flags: NEXT, next: 0 }) }, TABLE);
        bad(0, 'E2BIG', 'head 0', 'queue size 8');
      });

      it('direct descriptors and a table, together as many as the queue has', () => {
        chain(5, undefined);
        write({ 4: desc({ flags: NEXT, next: 5 }), 5: desc({ addr: TABLE, len: 48, flags: INDIRECT }) });
        chain(3, TABLE);
        expect(fine(0)?.out).to.have.length(8);
      });

      it('direct descriptors and a table, together one more', () => {
        chain(5, undefined);
        write({ 4: desc({ flags: NEXT, next: 5 }), 5: desc({ addr: TABLE, len: 64, flags: INDIRECT }) });
        chain(4, TABLE);
        bad(0, 'E2BIG', 'head 0', 'queue size 8');
      });

      it('as many direct descriptors as there can be, and then a table', () => {
        chain(8, undefined);
        write({ 7: desc({ addr: TABLE, len: 16, flags: INDIRECT }) });
        chain(1, TABLE);
        expect(fine(0)?.out).to.have.length(8);
      });
    });

    describe('case 19: how much is available', () => {
      it('over a table of 2 and a chain of 5 in a ring of 8', async () => {
        await set({ features: INDIRECT_DESC });
        write({ 0: desc({ addr: TABLE, len: 32, flags: INDIRECT }) });
        write({ 0: desc({ len: 10, flags: NEXT, next: 1 }), 1: desc({ len: 20, flags: WRITE }) }, TABLE);
        for (let i = 1; i <= 5; i++)
          write({ [i]: desc({ len: i, flags: (i < 5 ? NEXT : 0) | (i > 2 ? WRITE : 0), next: i + 1 }) });
        stage.ring.makeAvailable(0);
        stage.ring.makeAvailable(1);
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
        write({ 0: desc({ len: 3 }), 1: desc({ len: 4, flags: NEXT, next: 9 }) });
        stage.ring.makeAvailable(0);
        stage.ring.makeAvailable(1);
        expect(device.availableBytes(100, 100)).to.deep.equal({ in: 0, out: 3 });
        expect(device.broken).to.equal(false);
        expect(device.pop()?.id).to.equal(0);
        breaks(device, () => device.availableBytes(100, 100), 'EPROTO', 'next is 9');
      });

      it('in bounded steps: a driver can let every head begin the same long chain', async () => {
        const size = 2048;
        await set({ size });
        for (let i = 0; i < size; i++)
          write({ [i]: desc({ len: 1, flags: i < size - 1 ? NEXT : 0, next: i + 1 }) });
        for (let i = 0; i < size; i++) stage.ring.makeAvailable(i);
        // 2048 + 2047 + … are more than 2^20: whole chains are counted until there are as many.
        let sum = 0;
        for (let i = size; sum < 2 ** 20; i--) sum += i;
        expect(device.availableBytes(2 ** 40, 2 ** 40)).to.deep.equal({ in: 0, out: sum });
      });

      it('sums that need more than 32 bits', async () => {
        await set({ device: { regions: [...chunks(2 ** 32)] } });
        for (let i = 0; i < 8; i++) {
          write({ [i]: desc({ addr: HUGE, len: 0xffffffff, flags: i < 5 ? WRITE : 0 }) });
          stage.ring.makeAvailable(i);
        }
        expect(device.availableBytes(2 ** 53, 2 ** 53)).to.deep.equal({
          in: 5 * 0xffffffff,
          out: 3 * 0xffffffff,
        });
      });
    });

    describe('case 25: the used length', () => {
      it('is what was written, not how large the buffer is', async () => {
        await set();
        const { ring } = stage;
        write({ 0: desc({ len: 50, flags: NEXT, next: 1 }), 1: desc({ len: 100, flags: WRITE }) });
        for (const [i, written] of [0, 1, 99, 100].entries()) {
          fine(0);
          device.push({ id: 0 }, written);
          expect(ring.usedRing(i)).to.deep.equal({ id: 0, len: written });
        }
        expect(device.stats()).to.include({ bytesIn: 200, bytesOut: 200, completed: 4 });
        fine(0);
        refused(
          () => device.push({ id: 0 }, 101),
          'EINVAL',
          'written 101',
          'writable length 100',
          'element 0',
        );
        expect(ring.usedIdx).to.equal(4);
        device.push({ id: 0 }, 100);
        expect(ring.usedIdx).to.equal(5);
      });

      it('is 0 for elements of a burst that nobody wrote to', async () => {
        await set();
        for (let i = 0; i < 4; i++) {
          write({ [i]: desc({ len: 100, flags: WRITE }) });
          stage.ring.makeAvailable(i);
        }
        const elements = device.createElements(4);
        elements.words.fill(0xffffffff);
        device.popBurst(elements);
        elements.setWritten(2, 7);
        device.pushBurst(elements);
        for (let i = 0; i < 4; i++)
          expect(stage.ring.usedRing(i)).to.deep.equal({ id: i, len: i === 2 ? 7 : 0 });
      });
    });

    describe('case 26: order and empty segments', () => {
      it('a readable segment after a writable one', async () => {
        await set({ features: INDIRECT_DESC });
        write({
          0: desc({ flags: NEXT | WRITE, next: 1 }),
          1: desc({ addr: address + 4, len: 3, flags: NEXT, next: 2 }),
          2: desc({ flags: WRITE }),
        });
        bad(0, 'EPROTO', `readable segment at 0x${(address + 4).toString(16)}`, 'length 3');
        // Also across the border between the queue's own table and another one.
        write({ 1: desc({ addr: TABLE, len: 16, flags: INDIRECT }) });
        write({ 0: desc({ len: 6 }) }, TABLE);
        bad(0, 'EPROTO', 'readable segment', 'length 6');
        // Also where it is empty.
        write({ 0: desc({ len: 0 }) }, TABLE);
        bad(0, 'EPROTO', 'readable segment', 'length 0');
      });

      it('a segment of length 0 is passed on, wherever it points', async () => {
        await set({ features: INDIRECT_DESC });
        write({
          0: desc({ len: 0, flags: NEXT, next: 1 }),
          1: desc({ addr: U64 - 1n, len: 0, flags: NEXT, next: 2 }),
          2: desc({ len: 4, flags: NEXT, next: 3 }),
          3: desc({ addr: 2n ** 40n, len: 0, flags: WRITE | NEXT, next: 4 }),
          4: desc({ len: 0, flags: WRITE }),
          5: desc({ len: 0 }),
          6: desc({ len: 0, flags: WRITE }),
        });
        const nothing = { address: 0, length: 0 };
        expect(fine(0)).to.deep.equal({
          id: 0,
          out: [nothing, nothing, { address, length: 4 }],
          in: [nothing, nothing],
        });
        expect(fine(5)).to.deep.equal({ id: 5, out: [nothing], in: [] });
        expect(fine(6)).to.deep.equal({ id: 6, out: [], in: [nothing] });
        for (const id of [0, 5, 6]) {
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
          for (const flags of [0, WRITE]) {
            write({ 2: desc({ addr, len, flags }) });
            bad(2, 'EFAULT', `segment at 0x${BigInt(addr).toString(16)}`, `length ${len}`);
          }
          // The same in a table, behind a good one.
          write({ 2: desc({ addr: TABLE, len: 32, flags: INDIRECT }) });
          write({ 0: desc({ flags: NEXT, next: 1 }), 1: desc({ addr, len }) }, TABLE);
          bad(2, 'EFAULT', `segment at 0x${BigInt(addr).toString(16)}`, `length ${len}`);
        });

      it('no error: all of a region', async () => {
        await set();
        write({
          0: desc({ addr: DATA.address, len: DATA.length, flags: WRITE }),
          1: desc({ addr: end - 1 }),
        });
        expect(fine(0)?.in).to.deep.equal([DATA]);
        expect(fine(1)?.out).to.deep.equal([{ address: end - 1, length: 1 }]);
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
        write({ 0: desc({ addr: top, len: 0x1000 }), 1: desc({ addr: U64 - 1n, len: 1 }) });
        expect(fine(0)?.out).to.deep.equal([{ address: address + 64, length: 0x1000 }]);
        expect(fine(1)?.out).to.deep.equal([{ address: address + 64 + 0xfff, length: 1 }]);
        // Region 0 does not adjoin it.
        write({ 2: desc({ addr: U64 - 1n, len: 2 }) });
        bad(2, 'EFAULT', 'segment at 0xffffffffffffffff', 'length 2');
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
        write({ 0: desc({ addr: 2n ** 32n - 16n, len: 32, flags: WRITE }) });
        expect(fine(0)?.in).to.deep.equal([
          { address: address + 0x200, length: 8 },
          { address: address + 0x100, length: 16 },
          { address: address + 64, length: 8 },
        ]);
        device.push({ id: 0 }, 32);
        write({ 1: desc({ addr: 2n ** 32n - 9n, len: 26 }) });
        bad(1, 'EFAULT', 'segment at 0xfffffff7', 'length 26');
      });

      it('no regions: everything is bad, even if the ring itself is reachable', async () => {
        await set();
        device.setRegions([]);
        write({ 0: desc() });
        stage.ring.makeAvailable(0);
        breaks(device, () => device.pop(), 'EFAULT', 'length 1');
      });
    });

    describe('case 28: lengths of 2^31 and more', () => {
      it('are unsigned all the way', async () => {
        await set({ device: { regions: [...chunks(2 ** 32)] } });
        const len = 0x80000005;
        write({ 0: desc({ addr: HUGE, len, flags: WRITE }), 1: desc({ addr: HUGE, len }) });
        const element = fine(0);
        expect(element?.in).to.have.length(2 ** 31 / CHUNK + 1);
        expect(element?.in.at(-1)).to.deep.equal({ address: 0, length: 5 });
        device.push({ id: 0 }, len);
        expect(stage.ring.usedRing(0)).to.deep.equal({ id: 0, len });
        expect(fine(1)?.out).to.have.length(2 ** 31 / CHUNK + 1);
        expect(device.stats()).to.include({ bytesIn: len, bytesOut: len });
      });

      it('may come to 2^32 in all, and no more', async () => {
        await set({ device: { regions: [...chunks(2 ** 32)] } });
        const half = 2 ** 31;
        write({
          0: desc({ addr: HUGE, len: half, flags: NEXT | WRITE, next: 1 }),
          1: desc({ addr: HUGE, len: half, flags: WRITE }),
        });
        expect(fine(0)?.in).to.have.length(2 ** 32 / CHUNK);
        // The used length has 32 bits.
        device.push({ id: 0 }, 0xffffffff);
        expect(stage.ring.usedRing(0)).to.deep.equal({ id: 0, len: 0xffffffff });
        write({ 0: desc({ addr: HUGE, len: half + 1, flags: NEXT, next: 1 }) });
        bad(0, 'E2BIG', 'head 0', '4294967297 bytes');
        write({ 0: desc({ addr: HUGE, len: 0xffffffff, flags: NEXT, next: 1 }) });
        write({ 1: desc({ addr: HUGE, len: 0xffffffff }) });
        bad(0, 'E2BIG', 'head 0', '8589934590 bytes');
      });
    });

    describe('case 29: a full ring', () => {
      for (const size of [1, 2, 8, 2048])
        it(`of ${size} is not taken for an empty one`, async () => {
          await set({ size, features: EVENT_IDX });
          const driver = stage.driver();
          const elements = device.createElements(size);
          const completions = driver.createCompletions(size);
          const burst = driver.createBurst(size);
          // Several times round, from every side: indices equal modulo the size, and 16 bits of it.
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
  });
});
