import { Worker } from 'node:worker_threads';
import { expect } from 'chai';
import { type Completion, type Piece, VringError } from '../../src/index.js';
import { capricious, type Flip } from '../support/capricious.js';
import { forEachEngine, type Load } from '../support/engines.js';
import { INDIRECT, NEXT, type SplitRing, WRITE } from '../support/split-ring.js';
import { DATA, GUEST, INDIRECT_DESC, Stage, TABLES } from '../support/stage.js';

const { address } = DATA;
const TABLE = TABLES.address;

/** What a device may make of the chain of head 0 and be right: what came first, or what came later. */
interface Chain {
  out: Piece[];
  in: Piece[];
}

interface Scenario {
  write: (ring: SplitRing) => void;
  flips: (ring: SplitRing) => Flip[];
  /** Anything else must be a fault. */
  allowed: Chain[];
}

const piece = (length: number, at = address): Piece => ({ address: at, length });
const desc = (len: number, flags = 0, next = 0, addr = address) => ({ addr: BigInt(addr), len, flags, next });

/** Two halves of a word, as a signed number: what an Int32Array takes. */
const halves = (low: number, high: number): number => low | (high << 16);

/** Address of a word of descriptor `index`. */
const word = (ring: SplitRing, index: number, offset: number, table = ring.areas.descriptor) =>
  table + 16 * index + offset;

const SCENARIOS: Record<string, Scenario> = {
  'a length that is good or too large': {
    write: (ring) => ring.setDesc(0, desc(16)),
    flips: (ring) => [{ address: word(ring, 0, 8), values: [16, -16] }],
    allowed: [{ out: [piece(16)], in: [] }],
  },
  'a length that is good both ways': {
    write: (ring) => ring.setDesc(0, desc(16, WRITE)),
    flips: (ring) => [{ address: word(ring, 0, 8), values: [16, 4000] }],
    allowed: [16, 4000].map((length) => ({ out: [], in: [piece(length)] })),
  },
  'a length of 0 or not': {
    write: (ring) => ring.setDesc(0, desc(16)),
    flips: (ring) => [{ address: word(ring, 0, 8), values: [16, 0] }],
    allowed: [
      { out: [piece(16)], in: [] },
      { out: [piece(0, 0)], in: [] },
    ],
  },
  'an address at the end of a region': {
    write: (ring) => ring.setDesc(0, desc(16)),
    flips: (ring) => [{ address: word(ring, 0, 0), values: [address, DATA.address + DATA.length - 1] }],
    allowed: [{ out: [piece(16)], in: [] }],
  },
  'the upper half of an address': {
    write: (ring) => ring.setDesc(0, desc(16)),
    flips: (ring) => [{ address: word(ring, 0, 4), values: [0, 1] }],
    allowed: [{ out: [piece(16)], in: [] }],
  },
  'NEXT or not': {
    write: (ring) => {
      ring.setDesc(0, desc(16));
      ring.setDesc(1, desc(7, WRITE));
    },
    flips: (ring) => [{ address: word(ring, 0, 12), values: [halves(NEXT, 1), halves(0, 9)] }],
    allowed: [
      { out: [piece(16)], in: [piece(7)] },
      { out: [piece(16)], in: [] },
    ],
  },
  'readable or writable': {
    write: (ring) => ring.setDesc(0, desc(16)),
    flips: (ring) => [{ address: word(ring, 0, 12), values: [0, WRITE] }],
    allowed: [
      { out: [piece(16)], in: [] },
      { out: [], in: [piece(16)] },
    ],
  },
  'next, inside or outside of the table': {
    write: (ring) => {
      ring.setDesc(0, desc(16, NEXT, 1));
      ring.setDesc(1, desc(7));
    },
    flips: (ring) => [{ address: word(ring, 0, 12), values: [halves(NEXT, 1), halves(NEXT, 0x7fff)] }],
    allowed: [{ out: [piece(16), piece(7)], in: [] }],
  },
  'a loop that comes and goes': {
    write: (ring) => {
      for (let i = 0; i < 8; i++) ring.setDesc(i, desc(1, NEXT, (i + 1) % 8));
    },
    flips: (ring) => [{ address: word(ring, 7, 12), values: [halves(NEXT, 0), 0] }],
    allowed: [{ out: Array.from({ length: 8 }, () => piece(1)), in: [] }],
  },
  'data or a table, long or short': {
    write: (ring) => {
      ring.setDesc(0, desc(32, INDIRECT, 0, TABLE));
      ring.setDesc(0, desc(5, NEXT, 1), TABLE);
      ring.setDesc(1, desc(6), TABLE);
    },
    flips: (ring) => [
      { address: word(ring, 0, 8), values: [32, 16] },
      { address: word(ring, 0, 12), values: [INDIRECT, WRITE] },
    ],
    allowed: [
      { out: [piece(5), piece(6)], in: [] },
      { out: [], in: [piece(32, TABLE)] },
      { out: [], in: [piece(16, TABLE)] },
    ],
  },
  'the place of a table': {
    write: (ring) => {
      ring.setDesc(0, desc(16, INDIRECT, 0, TABLE));
      ring.setDesc(0, desc(5), TABLE);
      ring.setDesc(0, desc(6), TABLE + 64);
    },
    flips: (ring) => [{ address: word(ring, 0, 0), values: [TABLE, TABLE + 64] }],
    allowed: [
      { out: [piece(5)], in: [] },
      { out: [piece(6)], in: [] },
    ],
  },
  'a descriptor of a table': {
    write: (ring) => {
      ring.setDesc(0, desc(32, INDIRECT, 0, TABLE));
      ring.setDesc(0, desc(5, NEXT, 1), TABLE);
      ring.setDesc(1, desc(6), TABLE);
    },
    flips: (ring) => [
      { address: word(ring, 0, 8, TABLE), values: [5, -1] },
      { address: word(ring, 0, 12, TABLE), values: [halves(NEXT, 1), halves(NEXT, 2)] },
      { address: word(ring, 1, 12, TABLE), values: [0, INDIRECT] },
    ],
    allowed: [{ out: [piece(5), piece(6)], in: [] }],
  },
  'a descriptor of a table that is not aligned': {
    write: (ring) => {
      ring.setDesc(0, desc(32, INDIRECT, 0, TABLE + 2));
      ring.setDesc(0, desc(5, NEXT, 1), TABLE + 2);
      ring.setDesc(1, desc(6), TABLE + 2);
    },
    // The word holds the upper half of the length and the flags: two fields, each loaded once.
    flips: () => [{ address: TABLE + 12, values: [halves(0, NEXT), halves(0x7fff, 0)] }],
    allowed: [
      { out: [piece(5), piece(6)], in: [] },
      { out: [piece(5)], in: [] },
    ],
  },
};

const text = ({ out, in: in_ }: Chain): string =>
  [out.length, in_.length, ...[...out, ...in_].map((p) => `${p.address}+${p.length}`)].join();

/** Pops the chain of head 0 and puts it back, `repeat` times. Returns how often it was sound. */
function pops(
  stage: Stage,
  { allowed }: Scenario,
  repeat: (act: () => void, seen: () => boolean) => void,
): number {
  const device = stage.device();
  const elements = device.createElements(1, 8);
  const texts = new Set(allowed.map(text));
  stage.ring.makeAvailable(0);
  let sound = 0;
  repeat(
    () => {
      try {
        if (device.popBurst(elements) !== 1) throw new Error('the buffer has gone');
        const pieces = (from: number, n: number) =>
          Array.from({ length: n }, (_, i) => piece(elements.length(from + i), elements.address(from + i)));
        const outs = elements.outCount(0);
        const chain = { out: pieces(0, outs), in: pieces(outs, elements.inCount(0)) };
        if (!texts.has(text(chain))) throw new Error(`${text(chain)} is none of the chains that there were`);
        // What was handed out is what may be written: not the other value.
        const writable = chain.in.reduce((sum, { length }) => sum + length, 0);
        elements.setWritten(0, writable + 1);
        let refused = false;
        try {
          device.pushBurst(elements);
        } catch (error) {
          refused = error instanceof VringError;
        }
        if (!refused) throw new Error(`${writable + 1} of ${writable} bytes were accepted`);
        if (!device.rewind(1)) throw new Error('the element is not in flight');
        sound++;
      } catch (error) {
        if (!(error instanceof VringError)) throw error;
        device.reset();
      }
    },
    () => sound > 0,
  );
  return sound;
}

/** Two entries of the available ring; which two is a matter of where words begin. */
function heads(stage: Stage) {
  const { ring, areas } = stage;
  ring.setDesc(0, desc(16));
  ring.setDesc(7, desc(17));
  const at = Math.ceil((areas.driver + 4) / 4) * 4;
  const slot = (at - areas.driver - 4) / 2;
  const device = stage.device();
  const elements = device.createElements(2);
  let popped = 0;
  return {
    flip: { address: at, values: [halves(0, 0), halves(7, 0xffff)] } as Flip,
    act: () => {
      ring.availIdx = slot;
      for (let k = 0; k < slot; k++) device.pop();
      ring.availIdx = slot + 2;
      try {
        const n = device.popBurst(elements);
        for (let i = 0; i < n; i++) {
          const id = elements.id(i);
          const length = elements.length(elements.first(i));
          if (length !== (id === 7 ? 17 : 16)) throw new Error(`head ${id} with the chain of another`);
          if (id !== 0 && id !== 7) throw new Error(`head ${id} was never good`);
        }
        // Were it another head than the one in flight, it could not be pushed.
        if (device.pushBurst(elements) !== n) throw new Error('not in flight');
        popped += n;
      } catch (error) {
        if (!(error instanceof VringError)) throw error;
        if (!device.broken) throw error;
      }
      device.reset();
    },
    popped: () => popped,
  };
}

/** The first used entry. */
function completions(stage: Stage) {
  const { ring, areas } = stage;
  const driver = stage.driver();
  const elem = areas.device + 4;
  let got = 0;
  let bytes = 0;
  let cut = 0;
  return {
    flips: [
      { address: elem, values: [0, 65536] },
      { address: elem + 4, values: [4, -1] },
    ] as Flip[],
    act: () => {
      driver.add([], [{ address, length: 10 }], 0xabcd);
      ring.usedIdx = 1;
      try {
        const { token, length } = driver.getBuf() as Completion;
        if (token !== 0xabcd) throw new Error(`token ${token} was never added`);
        // 0 is what the reset left there.
        if (![0, 4, 10].includes(length))
          throw new Error(`length ${length} is none of those that there were`);
        got++;
        bytes += length;
        if (length === 10) cut++;
      } catch (error) {
        if (!(error instanceof VringError)) throw error;
        expect(error.message).to.contain('used id 65536');
      }
      driver.reset();
    },
    verify: () => {
      expect(got).to.be.above(0);
      // What was handed out is what was counted.
      expect(driver.stats()).to.include({ bytesIn: bytes, clamped: cut, completed: got });
    },
  };
}

describe('case 23: fields that change between two reads', () => {
  describe('at every load (typescript engine)', () => {
    const stage = async (flips: Flip[]) => {
      const load: Load = capricious(flips);
      return Stage.create(load, { features: INDIRECT_DESC });
    };

    for (const [name, scenario] of Object.entries(SCENARIOS))
      it(name, async () => {
        const flips: Flip[] = [];
        const arranged = await stage(flips);
        scenario.write(arranged.ring);
        flips.push(...scenario.flips(arranged.ring));
        let times = 0;
        // The number of loads differs from pop to pop, so both values come first sooner or later.
        pops(arranged, scenario, (act) => {
          for (; times < 50; times++) act();
        });
        arranged.check();
      });

    it('the head in the available ring', async () => {
      const flips: Flip[] = [];
      const arranged = await stage(flips);
      const { flip, act, popped } = heads(arranged);
      flips.push(flip);
      for (let i = 0; i < 50; i++) act();
      expect(popped()).to.be.above(0);
      arranged.check();
    });

    it('the used entry', async () => {
      const flips: Flip[] = [];
      const arranged = await stage(flips);
      const { flips: of, act, verify } = completions(arranged);
      flips.push(...of);
      for (let i = 0; i < 50; i++) {
        // Whatever the reset made of it: the one or the other value.
        const view = new DataView(arranged.memory.buffer);
        for (const { address, values } of of) view.setInt32(address, values[i % 2], true);
        act();
      }
      verify();
      arranged.check();
    });
  });

  forEachEngine((load, engine) => {
    // Of the TypeScript engine more is known from above.
    const ROUNDS = engine === 'wasm' ? 2000 : 500;
    /** Of the peer; it flips each word a few hundred times in each. */
    const FLIPS = 50;
    let stage: Stage;
    let worker: Worker;
    let control: Int32Array;
    const { stackTraceLimit } = Error;

    before(() => {
      // Every other pop fails here: that need not take most of the time.
      Error.stackTraceLimit = 0;
    });

    after(() => {
      Error.stackTraceLimit = stackTraceLimit;
    });

    beforeEach(async () => {
      const pages = (GUEST + 0x100000) / 65536;
      const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
      stage = await Stage.create(load, { memory, features: INDIRECT_DESC });
    });

    /** Starts the peer, and returns when it is at work. */
    async function flip(flips: Flip[]): Promise<void> {
      const at = stage.host.alloc(8);
      const { memory } = stage;
      control = new Int32Array(memory.buffer, at, 2);
      control.fill(0);
      worker = new Worker(new URL('../support/flipper.mjs', import.meta.url), {
        workerData: { memory, flips, control: at },
      });
      await new Promise<void>((resolve, reject) => {
        worker.once('error', reject);
        const look = () => (Atomics.load(control, 1) > 0 ? resolve() : setTimeout(look, 1));
        look();
      });
    }

    afterEach(async () => {
      Atomics.store(control, 0, 1);
      await worker.terminate();
      stage.check();
    });

    /** Calls `act` until it was often enough and the peer has flipped often enough in the meantime. */
    function repeat(act: () => void, seen = () => true): void {
      const from = Atomics.load(control, 1);
      const flips = () => Atomics.load(control, 1) - from;
      // On a single processor the peer has to wait for its turn.
      for (let i = 0; i < ROUNDS || ((flips() < FLIPS || !seen()) && i < 100 * ROUNDS); i++) act();
      expect(flips()).to.be.at.least(FLIPS);
    }

    for (const [name, scenario] of Object.entries(SCENARIOS))
      it(name, async () => {
        scenario.write(stage.ring);
        await flip(scenario.flips(stage.ring));
        expect(pops(stage, scenario, repeat)).to.be.above(0);
      });

    it('the head in the available ring', async () => {
      const { flip: one, act, popped } = heads(stage);
      await flip([one]);
      repeat(act, () => popped() > 0);
      expect(popped()).to.be.above(0);
    });

    it('the used entry', async () => {
      const { flips, act, verify } = completions(stage);
      await flip(flips);
      repeat(act);
      verify();
    });
  });
});
