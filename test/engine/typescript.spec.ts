import { expect } from 'chai';
import * as L from '../../assembly/abi/layout.js';
import { Regions } from '../../src/engine/regions.js';
import { TypeScriptEngine } from '../../src/engine/typescript/engine.js';
import { describeFault, type Fault } from '../../src/errors.js';
import { LinearMemory, type MemoryLike } from '../../src/memory.js';

// Where things are in a memory with room for the largest ring. Guest addresses are local ones unless a test
// says otherwise.
const DESC = 0x100000;
const AVAIL = 0x200000;
const USED = 0x220000;
const TABLES = 0x270000;
const SEGMENTS = 0x280000;
const TOKENS = 0x290000;
const ELEMENTS = 0x2a0000;
const PIECES = 0x2b0000;
const COMPLETIONS = 0x2c0000;
const DATA = 0x300000;
const MEMORY = 0x400000;

interface Options {
  size?: number;
  eventIdx?: boolean;
  indirect?: boolean;
  strict?: boolean;
  tables?: number;
  shared?: boolean;
  memory?: MemoryLike;
  regions?: { guest: number | bigint; length: number | bigint; local: number }[];
}

function setUp(options: Options = {}) {
  const {
    size = 8,
    eventIdx = false,
    indirect = false,
    strict = false,
    tables = 1024,
    shared = false,
  } = options;
  const memory = new LinearMemory(
    options.memory ?? (shared ? new SharedArrayBuffer(MEMORY) : new ArrayBuffer(MEMORY)),
  );
  const engine = new TypeScriptEngine(memory);
  const areas = { descriptor: DESC, driver: AVAIL, device: USED };
  const driver = engine.driverRing({
    ring: 'split',
    inOrder: false,
    size,
    areas,
    eventIdx,
    indirect,
    strict,
    addressOffset: 0n,
    policy: { policy: 'always', threshold: 1 },
    cache: { strategy: 'none', descriptors: 4, bound: 0, prefill: 0 },
    tables: { address: TABLES, length: tables },
  });
  const regions = new Regions(options.regions ?? [{ guest: 0, length: MEMORY, local: 0 }], MEMORY);
  const device = engine.deviceRing({
    ring: 'split',
    inOrder: false,
    size,
    areas,
    eventIdx,
    indirect,
    batches: true,
    regions,
    translation: 'lazy',
  });
  const view = new DataView(memory.buffer);

  return {
    memory,
    driver,
    device,
    view,
    /** Adds buffers; each is a list of [address, length, writable?]. */
    add(buffers: [number, number, boolean?][][], token = 100): number {
      let s = SEGMENTS;
      for (const [i, buffer] of buffers.entries()) {
        view.setUint32(TOKENS + 4 * i, token + i, true);
        for (const [k, [address, length, writable]] of buffer.entries()) {
          const more = k + 1 < buffer.length ? L.DESC_F_NEXT : 0;
          view.setBigUint64(s + L.SEGMENT_ADDRESS, BigInt(address), true);
          view.setUint32(s + L.SEGMENT_LENGTH, length, true);
          view.setUint16(s + L.SEGMENT_FLAGS, more | (writable ? L.DESC_F_WRITE : 0), true);
          view.setUint16(s + L.SEGMENT_COUNT, k === 0 ? buffer.length : 0, true);
          s += L.SEGMENT_BYTES;
        }
      }
      return driver.addBurst(SEGMENTS, TOKENS, buffers.length);
    },
    /** Pops and spells out what came. */
    pop(max = 64, capacity = 64) {
      const n = device.popBurst(ELEMENTS, PIECES, capacity, max);
      if (n < 0) return n;
      return Array.from({ length: n }, (_, i) => {
        const e = ELEMENTS + i * L.ELEMENT_BYTES;
        const first = view.getUint32(e + L.ELEMENT_FIRST, true);
        const out = view.getUint16(e + L.ELEMENT_OUT, true);
        const count = out + view.getUint16(e + L.ELEMENT_IN, true);
        const pieces = Array.from({ length: count }, (_, k) => {
          const p = PIECES + (first + k) * L.PIECE_BYTES;
          return [view.getUint32(p + L.PIECE_ADDRESS, true), view.getUint32(p + L.PIECE_LENGTH, true)];
        });
        return {
          id: view.getUint32(e + L.ELEMENT_ID, true),
          out: pieces.slice(0, out),
          in: pieces.slice(out),
        };
      });
    },
    push(entries: [id: number, written: number][]): number {
      for (const [i, [id, written]] of entries.entries()) {
        view.setUint32(ELEMENTS + i * L.ELEMENT_BYTES + L.ELEMENT_ID, id, true);
        view.setUint32(ELEMENTS + i * L.ELEMENT_BYTES + L.ELEMENT_WRITTEN, written, true);
      }
      return device.pushBurst(ELEMENTS, entries.length);
    },
    get(max = 64) {
      const n = driver.getBurst(COMPLETIONS, max);
      if (n < 0) return n;
      return Array.from({ length: n }, (_, i) => [
        view.getUint32(COMPLETIONS + i * L.COMPLETION_BYTES + L.COMPLETION_TOKEN, true),
        view.getUint32(COMPLETIONS + i * L.COMPLETION_BYTES + L.COMPLETION_LENGTH, true),
      ]);
    },
    descriptor(table: number, index: number) {
      const d = table + index * L.DESC_BYTES;
      return [
        view.getBigUint64(d + L.DESC_ADDR, true),
        view.getUint32(d + L.DESC_LEN, true),
        view.getUint16(d + L.DESC_FLAGS, true),
        view.getUint16(d + L.DESC_NEXT, true),
      ];
    },
    /** A descriptor of a driver that need not play by the rules. */
    forge(table: number, index: number, addr: number | bigint, len: number, flags = 0, next = 0): void {
      const d = table + index * L.DESC_BYTES;
      view.setBigUint64(d + L.DESC_ADDR, BigInt(addr), true);
      view.setUint32(d + L.DESC_LEN, len, true);
      view.setUint16(d + L.DESC_FLAGS, flags, true);
      view.setUint16(d + L.DESC_NEXT, next, true);
    },
    /** Makes heads available behind the driver's back. */
    offer(...heads: number[]): void {
      let idx = view.getUint16(AVAIL + L.AVAIL_IDX, true);
      for (const head of heads) view.setUint16(AVAIL + L.AVAIL_RING + 2 * (idx++ % size), head, true);
      view.setUint16(AVAIL + L.AVAIL_IDX, idx, true);
    },
    /** Publishes used entries behind the device's back. */
    use(...entries: [id: number, len: number][]): void {
      let idx = view.getUint16(USED + L.USED_IDX, true);
      for (const [id, len] of entries) {
        view.setUint32(USED + L.USED_RING + 8 * (idx % size), id, true);
        view.setUint32(USED + L.USED_RING + 8 * (idx++ % size) + 4, len, true);
      }
      view.setUint16(USED + L.USED_IDX, idx, true);
    },
    usedEvent: () => view.getUint16(AVAIL + L.AVAIL_RING + 2 * size, true),
    availEvent: () => view.getUint16(USED + L.USED_RING + 8 * size, true),
    deviceFault: () => [device.fault, device.faultA, device.faultB],
    driverFault: () => [driver.fault, driver.faultA, driver.faultB],
  };
}

const { DESC_F_INDIRECT: INDIRECT, DESC_F_NEXT: NEXT, DESC_F_WRITE: WRITE } = L;

describe('TypeScript engine', () => {
  describe('driver and device', () => {
    for (const shared of [false, true])
      for (const size of [1, 2, 256, 32768])
        it(`move buffers around a ring of ${size}, index wrap included (${shared ? 'shared' : 'unshared'})`, () => {
          const t = setUp({ size, eventIdx: true, shared });
          const burst = Math.min(size, 32);
          let next = 0;
          t.add(
            Array.from({ length: burst }, (_, i): [number, number, boolean][] => [
              [DATA + i * 64, 64, i % 2 === 1],
            ]),
          );
          let added = burst;
          while (next < 70000) {
            expect(added).to.equal(burst);
            if (t.driver.kickPrepare() !== 1) throw new Error(`no kick at ${next}`);
            if (t.device.popBurst(ELEMENTS, PIECES, 1024, 1024) !== burst) throw new Error(`pop at ${next}`);
            for (let i = 0; i < burst; i++)
              t.view.setUint32(ELEMENTS + i * L.ELEMENT_BYTES + L.ELEMENT_WRITTEN, i % 2 ? 64 : 0, true);
            if (t.device.pushBurst(ELEMENTS, burst) !== burst) throw new Error(`push at ${next}`);
            if (t.device.shouldInterrupt() !== 1) throw new Error(`no interrupt at ${next}`);
            if (t.driver.getBurst(COMPLETIONS, 1024) !== burst) throw new Error(`get at ${next}`);
            for (let i = 0; i < burst; i++) {
              const token = t.view.getUint32(COMPLETIONS + i * 8 + L.COMPLETION_TOKEN, true);
              const length = t.view.getUint32(COMPLETIONS + i * 8 + L.COMPLETION_LENGTH, true);
              if (token !== 100 + next + i || length !== (i % 2 ? 64 : 0))
                throw new Error(`buffer ${next + i}`);
            }
            next += burst;
            for (let i = 0; i < burst; i++) t.view.setUint32(TOKENS + 4 * i, 100 + next + i, true);
            added = t.driver.addBurst(SEGMENTS, TOKENS, burst);
          }
          expect(t.driver.numFree).to.equal(size - burst);
          expect(t.driver.inFlight).to.equal(burst);
          expect(t.device.inFlight).to.equal(0);
        });

    it('can be full', () => {
      const t = setUp({ size: 32768 });
      const one: [number, number][] = [[DATA, 1]];
      for (let i = 0; i < 32; i++) expect(t.add(new Array(1024).fill(one))).to.equal(1024);
      expect(t.add([one])).to.equal(0);
      for (let i = 0; i < 32; i++) expect(t.device.popBurst(ELEMENTS, PIECES, 1024, 1024)).to.equal(1024);
      expect(t.device.inFlight).to.equal(32768);
      expect(t.device.popBurst(ELEMENTS, PIECES, 1024, 1024)).to.equal(0);
    });

    it('write what the specification says', () => {
      const t = setUp();
      expect(
        t.add([
          [[DATA, 1]],
          [
            [DATA, 2],
            [DATA + 16, 3, true],
          ],
        ]),
      ).to.equal(2);
      expect(t.descriptor(DESC, 0)).to.deep.equal([BigInt(DATA), 1, 0, 0]);
      expect(t.descriptor(DESC, 1)).to.deep.equal([BigInt(DATA), 2, NEXT, 2]);
      expect(t.descriptor(DESC, 2)).to.deep.equal([BigInt(DATA + 16), 3, WRITE, 0]);
      expect(t.view.getUint16(AVAIL + L.AVAIL_IDX, true)).to.equal(2);
      expect(t.view.getUint16(AVAIL + L.AVAIL_RING + 2, true)).to.equal(1);
      expect(t.pop()).to.deep.equal([
        { id: 0, out: [[DATA, 1]], in: [] },
        { id: 1, out: [[DATA, 2]], in: [[DATA + 16, 3]] },
      ]);
      t.push([[1, 3]]);
      expect(t.get()).to.deep.equal([[101, 3]]);
      // The chain came back as a whole, in order: 1, 2, and then what was free before.
      t.add([
        [
          [DATA, 1],
          [DATA, 1],
          [DATA, 1],
        ],
      ]);
      expect(t.descriptor(DESC, 1)[3]).to.equal(2);
      expect(t.descriptor(DESC, 2)[3]).to.equal(3);
    });

    it('use tables where they can be had', () => {
      const t = setUp({ size: 4, indirect: true, tables: 64 });
      const three: [number, number, boolean?][] = [
        [DATA, 1],
        [DATA + 1, 2, true],
        [DATA + 3, 3, true],
      ];
      expect(t.add([three, three, three])).to.equal(2);
      expect(t.descriptor(DESC, 0)).to.deep.equal([BigInt(TABLES), 48, INDIRECT, 0]);
      expect(t.descriptor(TABLES, 0)).to.deep.equal([BigInt(DATA), 1, NEXT, 1]);
      expect(t.descriptor(TABLES, 2)).to.deep.equal([BigInt(DATA + 3), 3, WRITE, 0]);
      expect(t.driver.numFree).to.equal(0);
      expect(t.driver.tableBytes).to.equal(48);
      expect(t.driver.counter(L.COUNT_TABLE_FAILED)).to.equal(1);
      expect(t.driver.counter(L.COUNT_FULL)).to.equal(1);
      expect(t.pop()).to.have.length(2);
      t.push([
        [0, 5],
        [1, 0],
      ]);
      expect(t.get()).to.deep.equal([
        [100, 5],
        [101, 0],
      ]);
      expect(t.driver.tableBytes).to.equal(0);
      expect(t.driver.numFree).to.equal(4);
    });

    it('go on when the memory has grown and every view of it is detached', () => {
      const memory = new WebAssembly.Memory({ initial: MEMORY / 65536 });
      const t = setUp({ memory, eventIdx: true });
      t.add([[[DATA, 1]], [[DATA, 2, true]]]);
      memory.grow(1);
      expect(t.driver.kickPrepare()).to.equal(1);
      memory.grow(1);
      expect(t.device.popBurst(ELEMENTS, PIECES, 8, 8)).to.equal(2);
      memory.grow(1);
      expect(t.device.pushBurst(ELEMENTS, 2)).to.equal(2);
      memory.grow(1);
      expect(t.device.shouldInterrupt()).to.equal(1);
      memory.grow(1);
      expect(t.driver.moreUsed()).to.equal(1);
      memory.grow(1);
      expect(t.driver.getBurst(COMPLETIONS, 8)).to.equal(2);
      expect(new Uint32Array(memory.buffer)[COMPLETIONS >>> 2]).to.equal(100);
    });

    it('tell full from too long', () => {
      const t = setUp({ size: 2 });
      const one: [number, number][] = [[DATA, 1]];
      expect(t.add([one, one, one])).to.equal(2);
      expect(t.add([one])).to.equal(0);
      expect(t.add([[...one, ...one, ...one]])).to.equal(L.RESULT_TOO_LONG);
      expect(t.driver.counter(L.COUNT_FULL)).to.equal(2);
    });

    it('hand back what the device never returned, lowest head first', () => {
      const t = setUp({ size: 4 });
      t.add([[[DATA, 1]], [[DATA, 1]], [[DATA, 1]]]);
      t.pop();
      t.push([[1, 0]]);
      t.get();
      const tokens = [];
      while (t.driver.detachUnused(COMPLETIONS)) tokens.push(t.view.getUint32(COMPLETIONS, true));
      expect(tokens).to.deep.equal([100, 102]);
      expect(t.driver.numFree).to.equal(4);
    });
  });

  describe('notifications', () => {
    it('follow the flags without EVENT_IDX', () => {
      const t = setUp();
      expect(t.driver.kickPrepare()).to.equal(1);
      t.device.disableNotifications();
      t.add([[[DATA, 1]]]);
      expect(t.driver.kickPrepare()).to.equal(0);
      expect(t.device.enableNotifications()).to.equal(0);
      t.pop();
      expect(t.device.shouldInterrupt()).to.equal(0);
      t.driver.disableCallbacks();
      t.push([[0, 0]]);
      expect(t.device.shouldInterrupt()).to.equal(0);
      expect(t.driver.enableCallbacksPrepare()).to.equal(0);
      expect(t.driver.poll(0)).to.equal(1);
    });

    it('follow the event index', () => {
      const t = setUp({ eventIdx: true });
      expect(t.driver.kickPrepare()).to.equal(0);
      t.device.disableNotifications();
      expect(t.availEvent()).to.equal(0x8000);
      t.add([[[DATA, 1]], [[DATA, 1]], [[DATA, 1]], [[DATA, 1]]]);
      expect(t.driver.kickPrepare()).to.equal(0);
      t.pop();
      expect(t.availEvent()).to.equal(0x8000);
      expect(t.device.enableNotifications()).to.equal(1);
      expect(t.availEvent()).to.equal(4);
      expect(t.driver.enableCallbacksDelayed()).to.equal(1);
      expect(t.usedEvent()).to.equal(3);
      t.push([
        [0, 0],
        [1, 0],
        [2, 0],
      ]);
      expect(t.device.shouldInterrupt()).to.equal(0);
      t.push([[3, 0]]);
      expect(t.device.shouldInterrupt()).to.equal(1);
      expect(t.driver.enableCallbacksDelayed()).to.equal(0);
      t.get();
      expect(t.usedEvent()).to.equal(4);
    });

    it('never miss the event after 65536 entries or more', () => {
      const t = setUp({ size: 256, eventIdx: true });
      t.add(new Array(256).fill([[DATA, 1]]));
      for (let i = 0; i < 256; i++) {
        t.device.popBurst(ELEMENTS, PIECES, 256, 256);
        t.device.pushBurst(ELEMENTS, 256);
        t.driver.getBurst(COMPLETIONS, 256);
        t.driver.addBurst(SEGMENTS, TOKENS, 256);
      }
      t.view.setUint16(USED + L.USED_RING + 8 * 256, 0x1234, true);
      t.view.setUint16(AVAIL + L.AVAIL_RING + 2 * 256, 0x1234, true);
      expect(t.driver.kickPrepare()).to.equal(1);
      expect(t.device.shouldInterrupt()).to.equal(1);
    });
  });

  describe('device, putting back', () => {
    it('rewinds what is still in flight', () => {
      const t = setUp();
      t.add([[[DATA, 1]], [[DATA, 2, true]], [[DATA, 3]]]);
      const first = t.pop();
      expect(t.device.lastPopped()).to.equal(2);
      expect(t.device.writable(1)).to.equal(2);
      expect(t.device.rewind(4)).to.equal(0);
      expect(t.device.rewind(3)).to.equal(1);
      expect(t.pop()).to.deep.equal(first);
      expect(t.device.detach(2)).to.equal(0);
      expect(t.device.detach(2)).to.equal(L.RESULT_NOT_IN_FLIGHT);
      expect(t.device.lastPopped()).to.equal(L.RESULT_NOT_IN_FLIGHT);
      expect(t.device.rewind(1)).to.equal(0);
      expect(t.device.inFlight).to.equal(2);
    });

    it('fills ahead and flushes', () => {
      const t = setUp();
      t.add([[[DATA, 1]], [[DATA, 2, true]]]);
      t.pop();
      expect(t.device.fill(1, 3, 0)).to.equal(L.RESULT_WRITTEN);
      // Two in flight: the driver may still have to take what is two slots ahead.
      expect(t.device.fill(1, 2, 2)).to.equal(L.RESULT_SLOT);
      expect(t.device.fill(1, 2, 1)).to.equal(0);
      expect(t.device.fill(0, 0, 1)).to.equal(L.RESULT_SLOT);
      expect(t.device.fill(1, 2, 0)).to.equal(L.RESULT_NOT_IN_FLIGHT);
      expect(t.device.flush(1)).to.equal(L.RESULT_SLOT);
      expect(t.push([[0, 0]])).to.equal(L.RESULT_SLOT);
      expect(t.device.fill(0, 0, 0)).to.equal(0);
      expect(t.get()).to.deep.equal([]);
      expect(t.device.flush(2)).to.equal(0);
      expect(t.get()).to.deep.equal([
        [100, 0],
        [101, 2],
      ]);
    });
  });

  describe('device, translation', () => {
    it('uses all 64 bits, splits at adjoining regions and joins nothing else', () => {
      const high = 0xffffffff_ffffff00n;
      const t = setUp({
        regions: [
          { guest: high, length: 256, local: DATA },
          { guest: 0xffffff00, length: 0x200, local: DATA + 0x1000 },
          { guest: 0x1_0000_0100, length: 16, local: DATA + 0x5001 },
        ],
      });
      t.forge(DESC, 0, high + 255n, 1);
      t.forge(DESC, 1, 0xffffff80, 0x188, WRITE);
      t.forge(DESC, 2, 0xdead_0000_0000n, 0);
      t.forge(DESC, 3, 0xffffffff, 2, NEXT, 0);
      t.offer(0, 1, 2, 3);
      expect(t.pop()).to.deep.equal([
        { id: 0, out: [[DATA + 255, 1]], in: [] },
        {
          id: 1,
          out: [],
          in: [
            [DATA + 0x1080, 0x180],
            [DATA + 0x5001, 8],
          ],
        },
        { id: 2, out: [[0, 0]], in: [] },
        {
          id: 3,
          out: [
            [DATA + 0x10ff, 2],
            [DATA + 255, 1],
          ],
          in: [],
        },
      ]);
    });

    for (const [what, addr, len] of [
      ['wraps 2^64', 0xffffffff_ffffff00n, 257],
      ['ends one past its region', 0x1_0000_0000n, 0x101],
      ['has only its low half in a region', 0x2_0000_0000n, 1],
      ['lies below the region', 0xffff_fffen, 4],
    ] as const)
      it(`refuses a segment that ${what}`, () => {
        const t = setUp({
          regions: [
            { guest: 0, length: 256, local: DATA },
            { guest: 0xffffffff_ffffff00n, length: 256, local: DATA },
            { guest: 0x1_0000_0000n, length: 0x100, local: DATA },
          ],
        });
        t.forge(DESC, 0, addr, len);
        t.offer(0);
        expect(t.pop()).to.equal(L.RESULT_BROKEN);
        expect(t.deviceFault()).to.deep.equal([L.FAULT_SEGMENT_RANGE, addr, BigInt(len)]);
      });

    it('reads tables at any address', () => {
      for (const shift of [0, 1, 2, 3]) {
        const t = setUp({ indirect: true });
        const table = DATA + 0x1000 + shift;
        t.forge(table, 0, DATA, 0x85, NEXT, 2);
        t.forge(table, 2, DATA + 0x999, 7, WRITE, 0);
        t.forge(DESC, 3, DATA + 9, 1, NEXT, 4);
        t.forge(DESC, 4, table, 48, INDIRECT | WRITE, 0);
        t.offer(3);
        expect(t.pop(), `shift ${shift}`).to.deep.equal([
          {
            id: 3,
            out: [
              [DATA + 9, 1],
              [DATA, 0x85],
            ],
            in: [[DATA + 0x999, 7]],
          },
        ]);
      }
    });
  });

  describe('device against a hostile driver', () => {
    type Hostile = [
      what: string,
      act: (t: ReturnType<typeof setUp>) => void,
      fault: number,
      a: bigint,
      b: bigint,
    ];
    const table = DATA + 0x2000;
    const cases: Hostile[] = [
      [
        'avail.idx too far ahead',
        (t) => t.view.setUint16(AVAIL + L.AVAIL_IDX, 9, true),
        L.FAULT_AVAIL_IDX,
        9n,
        0n,
      ],
      ['a head that is the queue size', (t) => t.offer(8), L.FAULT_HEAD_RANGE, 8n, 8n],
      [
        'a next that is the queue size',
        (t) => {
          t.forge(DESC, 0, DATA, 1, NEXT, 8);
          t.offer(0);
        },
        L.FAULT_NEXT_RANGE,
        8n,
        8n,
      ],
      [
        'a descriptor that is its own successor',
        (t) => {
          t.forge(DESC, 5, DATA, 0, NEXT, 5);
          t.offer(5);
        },
        L.FAULT_CHAIN_LOOP,
        5n,
        8n,
      ],
      [
        'a loop in a table',
        (t) => {
          t.forge(table, 0, DATA, 1, NEXT, 0);
          t.forge(DESC, 1, table, 64, INDIRECT);
          t.offer(1);
        },
        L.FAULT_CHAIN_LOOP,
        1n,
        4n,
      ],
      [
        'a chain longer than the queue, over tables',
        (t) => {
          t.forge(DESC, 1, DATA, 1, NEXT, 2);
          t.forge(DESC, 2, table, 16 * 16, INDIRECT);
          for (let i = 0; i < 16; i++) t.forge(table, i, DATA, 1, i < 7 ? NEXT : 0, i + 1);
          t.offer(1);
        },
        L.FAULT_CHAIN_LONG,
        1n,
        8n,
      ],
      [
        'a readable segment after a writable one',
        (t) => {
          t.forge(DESC, 0, DATA, 1, NEXT | WRITE, 1);
          t.forge(DESC, 1, DATA + 1, 2);
          t.offer(0);
        },
        L.FAULT_SEGMENT_ORDER,
        BigInt(DATA + 1),
        2n,
      ],
      [
        'a table inside a table',
        (t) => {
          t.forge(table, 0, table, 16, INDIRECT);
          t.forge(DESC, 0, table, 16, INDIRECT);
          t.offer(0);
        },
        L.FAULT_INDIRECT_NESTED,
        0n,
        4n,
      ],
      [
        'INDIRECT with NEXT',
        (t) => {
          t.forge(DESC, 2, table, 16, INDIRECT | NEXT);
          t.offer(2);
        },
        L.FAULT_INDIRECT_NEXT,
        2n,
        5n,
      ],
      ...[0, 24].map(
        (length): Hostile => [
          `a table of ${length} bytes`,
          (t) => {
            t.forge(DESC, 0, table, length, INDIRECT);
            t.offer(0);
          },
          L.FAULT_TABLE_LENGTH,
          BigInt(length),
          BigInt(table),
        ],
      ),
      [
        'a table that leaves its region',
        (t) => {
          t.forge(DESC, 0, MEMORY - 16, 32, INDIRECT);
          t.offer(0);
        },
        L.FAULT_TABLE_RANGE,
        BigInt(MEMORY - 16),
        32n,
      ],
    ];
    for (const [what, act, fault, a, b] of cases)
      it(`breaks for ${what}, until reset`, () => {
        const t = setUp({ indirect: true });
        act(t);
        expect(t.device.availableBytes(1e9, 1e9)).to.equal(L.RESULT_BROKEN);
        expect(t.deviceFault()).to.deep.equal([fault, a, b]);
        t.device.reset();
        expect(t.device.fault).to.equal(L.FAULT_NONE);
        expect(t.pop()).to.equal(L.RESULT_BROKEN);
        expect(t.pop()).to.equal(L.RESULT_BROKEN);
        expect(t.deviceFault()).to.deep.equal([fault, a, b]);
        const text: Fault = describeFault(t.device.fault, t.device.faultA, t.device.faultB);
        expect(text.reason).to.be.a('string');
      });

    it('breaks for INDIRECT that was not negotiated', () => {
      const t = setUp();
      t.forge(DESC, 2, table, 16, INDIRECT);
      t.offer(2);
      expect(t.pop()).to.equal(L.RESULT_BROKEN);
      expect(t.deviceFault()).to.deep.equal([L.FAULT_INDIRECT_REFUSED, 2n, 4n]);
    });

    it('breaks for a chain of more than 2^32 bytes, not for one of exactly that', () => {
      for (const [extra, sound] of [
        [1, true],
        [2, false],
      ] as const) {
        const t = setUp();
        // Only the numbers matter: nothing is read from the buffers.
        const regions = new Regions([{ guest: 0, length: 2 ** 32, local: 0 }], 2 ** 32);
        t.device.setRegions(regions);
        t.forge(DESC, 0, 0, 0xffffffff, NEXT, 1);
        t.forge(DESC, 1, 0, extra);
        t.offer(0);
        if (sound) {
          expect(t.pop()).to.deep.equal([
            {
              id: 0,
              out: [
                [0, 0xffffffff],
                [0, 1],
              ],
              in: [],
            },
          ]);
        } else {
          expect(t.pop()).to.equal(L.RESULT_BROKEN);
          expect(t.deviceFault()).to.deep.equal([L.FAULT_CHAIN_BYTES, 0n, 2n ** 32n + 1n]);
        }
      }
    });

    it('returns the good chains first', () => {
      const t = setUp();
      t.forge(DESC, 0, DATA, 1);
      t.offer(0, 0);
      expect(t.pop()).to.have.length(1);
      expect(t.device.fault).to.equal(L.FAULT_NONE);
      expect(t.pop()).to.equal(L.RESULT_BROKEN);
      expect(t.deviceFault()).to.deep.equal([L.FAULT_HEAD_IN_FLIGHT, 0n, 1n]);
    });

    it('stops before a chain that does not fit', () => {
      const t = setUp();
      t.add([
        [[DATA, 1]],
        [
          [DATA, 1],
          [DATA, 1],
        ],
      ]);
      expect(t.pop(64, 2)).to.have.length(1);
      expect(t.pop(64, 1)).to.equal(L.RESULT_NO_ROOM);
      expect(t.pop(64, 2)).to.have.length(1);
    });

    it('sums what is available', () => {
      const t = setUp({ indirect: true });
      t.add([
        [
          [DATA, 10],
          [DATA, 20, true],
        ],
        [
          [DATA, 1],
          [DATA, 2],
          [DATA, 3],
          [DATA, 4, true],
          [DATA, 5, true],
        ],
      ]);
      expect(t.device.availableBytes(1e9, 1e9)).to.equal(0);
      expect([t.device.availableIn, t.device.availableOut]).to.deep.equal([29, 16]);
      expect(t.device.availableBytes(20, 10)).to.equal(0);
      expect([t.device.availableIn, t.device.availableOut]).to.deep.equal([20, 10]);
    });

    it('pushes up to the first record that is wrong', () => {
      const t = setUp();
      t.add([[[DATA, 4, true]], [[DATA, 4, true]]]);
      t.pop();
      expect(
        t.push([
          [0, 4],
          [1, 5],
        ]),
      ).to.equal(1);
      expect(t.push([[0, 0]])).to.equal(0);
      expect(t.push([[0xffffffff, 0]])).to.equal(0);
      expect(t.push([[1, 0]])).to.equal(1);
    });
  });

  describe('driver against a hostile device', () => {
    for (const [what, id, fault, b] of [
      ['65536', 65536, L.FAULT_USED_ID_RANGE, 8n],
      ['the queue size', 8, L.FAULT_USED_ID_RANGE, 8n],
      ['no head', 1, L.FAULT_USED_ID, 7n],
    ] as const)
      it(`breaks for a used id that is ${what}, after the good ones`, () => {
        const t = setUp();
        t.add([
          [
            [DATA, 1],
            [DATA, 1],
          ],
          [[DATA, 4, true]],
        ]);
        t.use([2, 4], [id, 7]);
        expect(t.get()).to.deep.equal([[101, 4]]);
        expect(t.driver.fault).to.equal(L.FAULT_NONE);
        expect(t.get()).to.equal(L.RESULT_BROKEN);
        expect(t.driverFault()).to.deep.equal([fault, BigInt(id), b]);
        expect(t.add([[[DATA, 1]]])).to.equal(L.RESULT_BROKEN);
        expect(t.driver.detachUnused(COMPLETIONS)).to.equal(1);
        expect(t.driver.detachUnused(COMPLETIONS)).to.equal(0);
        t.driver.reset();
        expect(t.add([[[DATA, 1]]])).to.equal(1);
      });

    it('breaks for used.idx too far ahead', () => {
      const t = setUp();
      t.add([[[DATA, 1]]]);
      t.view.setUint16(USED + L.USED_IDX, 2, true);
      expect(t.get()).to.equal(L.RESULT_BROKEN);
      expect(t.driverFault()).to.deep.equal([L.FAULT_USED_IDX, 2n, 0n]);
    });

    it('cuts a used length to the writable part, or breaks in strict mode', () => {
      for (const strict of [false, true]) {
        const t = setUp({ strict });
        t.add([[[DATA, 0xffff]]]);
        t.use([0, 0xffff]);
        if (strict) {
          expect(t.get()).to.equal(L.RESULT_BROKEN);
          expect(t.driverFault()).to.deep.equal([L.FAULT_USED_LEN, 0xffffn, 0n]);
        } else {
          expect(t.get()).to.deep.equal([[100, 0]]);
          expect(t.driver.counter(L.COUNT_CLAMPED)).to.equal(1);
        }
      }
    });
  });
});
