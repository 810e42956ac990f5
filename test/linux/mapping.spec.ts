import { closeSync, ftruncateSync, openSync, readSync } from 'node:fs';
import { expect } from 'chai';
import { Feature, loadEngine, VringError } from '../../src/index.js';
import { mapFile, PAGE } from '../../src/linux/mapping.js';
import { createMemfd } from '../../src/linux/memfd.js';

const MIB = 1 << 20;

const code = (act: () => unknown): string => {
  try {
    act();
  } catch (error) {
    if (error instanceof VringError) return error.code;
    throw error;
  }
  return 'none';
};

describe('mapping of a file into an engine', () => {
  before(function () {
    if (process.platform !== 'linux') this.skip(); // mmap over a WebAssembly memory is Linux's
  });

  const fds: number[] = [];
  const memfd = (size: number): number => {
    const fd = createMemfd('vring-test', size);
    fds.push(fd);
    return fd;
  };
  afterEach(() => {
    for (const fd of fds.splice(0)) closeSync(fd);
  });

  for (const shared of [false, true]) {
    it(`shows the same pages twice, and in the file (shared: ${shared})`, async () => {
      const engine = await loadEngine({ size: 4 * MIB, shared });
      const used = engine.used;
      const fd = memfd(MIB);
      const a = mapFile(engine, fd, { length: MIB });
      const b = mapFile(engine, fd, { length: 100, offset: 8000 });
      const bytes = new Uint8Array(engine.buffer);
      bytes[a.address + 8003] = 0x5a;
      expect(bytes[b.address + 3]).to.equal(0x5a);
      bytes[b.address + 99] = 0xa5;
      const read = Buffer.alloc(100);
      readSync(fd, read, 0, 100, 8000);
      expect([read[3], read[99]]).to.deep.equal([0x5a, 0xa5]);
      b.release();
      a.release();
      a.release();
      expect(engine.used).to.equal(used);
    });
  }

  it('leaves what lies beside it alone, and zeros where it was', async () => {
    const engine = await loadEngine({ size: MIB });
    const fd = memfd(PAGE);
    const left = engine.alloc(PAGE, PAGE);
    const mapping = mapFile(engine, fd, { length: PAGE });
    const right = engine.alloc(PAGE, PAGE);
    expect([mapping.address - left, right - mapping.address]).to.deep.equal([PAGE, PAGE]);
    const bytes = new Uint8Array(engine.buffer);
    bytes.fill(1, left, right + PAGE);
    mapping.release();
    expect(bytes.slice(left, left + PAGE).every((byte) => byte === 1)).to.equal(true);
    expect(bytes.slice(right, right + PAGE).every((byte) => byte === 1)).to.equal(true);
    expect(bytes.slice(mapping.address, mapping.address + PAGE).every((byte) => byte === 0)).to.equal(true);
    const read = Buffer.alloc(PAGE);
    readSync(fd, read, 0, PAGE, 0);
    expect(read.every((byte) => byte === 1)).to.equal(true);
  });

  it('survives that the memory grows', async () => {
    const memory = new WebAssembly.Memory({ initial: 16 });
    const engine = await loadEngine({ memory, size: MIB });
    const fd = memfd(PAGE);
    const mapping = mapFile(engine, fd, { length: PAGE });
    memory.grow(1000);
    new Uint8Array(engine.buffer)[mapping.address] = 7;
    const read = Buffer.alloc(1);
    readSync(fd, read, 0, 1, 0);
    expect(read[0]).to.equal(7);
    mapping.release();
  });

  it('carries a queue between two engines that share nothing else', async () => {
    const fd = memfd(MIB);
    const engines = [
      await loadEngine({ size: 4 * MIB, shared: true }),
      await loadEngine({ engine: 'typescript', memory: sharedMemory(), base: 0 }),
    ];
    const [near, far] = engines.map((engine) => mapFile(engine, fd, { length: MIB }));
    const ring = { ring: 'split', size: 8, features: [Feature.VERSION_1, Feature.EVENT_IDX] } as const;
    const offsets = { descriptor: 0, driver: 4096, device: 8192 };
    const driver = engines[0].driverQueue({
      ...ring,
      areas: { descriptor: near.address, driver: near.address + 4096, device: near.address + 8192 },
    });
    const device = engines[1].deviceQueue({
      ...ring,
      areas: offsets,
      regions: [{ guest: 0, length: MIB, local: far.address }],
    });
    const ours = new Uint8Array(engines[0].buffer);
    const theirs = new Uint8Array(engines[1].buffer);
    for (let i = 0; i < 100; i++) {
      ours[near.address + 16384] = i;
      driver.add([{ address: 16384, length: 1 }], [{ address: 20000, length: 1 }], i);
      const element = device.pop();
      if (element === undefined) throw new Error('nothing arrived');
      theirs[element.in[0].address] = theirs[element.out[0].address] ^ 0xff;
      device.push(element, 1);
      expect(driver.getBuf()).to.deep.equal({ token: i, length: 1 });
      expect(ours[near.address + 20000]).to.equal(i ^ 0xff);
    }
    driver.release();
    device.release();
    for (const mapping of [near, far]) mapping.release();
    expect(engines.map((engine) => engine.used)).to.deep.equal([0, 0]);
  });

  it('refuses what cannot be mapped, and takes nothing', async () => {
    const engine = await loadEngine({ size: MIB });
    const fd = memfd(2 * PAGE);
    expect(code(() => mapFile(engine, fd, { length: 2 * PAGE + 1 }))).to.equal('EFAULT');
    expect(code(() => mapFile(engine, fd, { length: 1, offset: 2 * PAGE }))).to.equal('EFAULT');
    expect(code(() => mapFile(engine, fd, { length: 0 }))).to.equal('EINVAL');
    expect(code(() => mapFile(engine, fd, { length: 1, offset: -1 }))).to.equal('EINVAL');
    expect(code(() => mapFile(engine, -1, { length: 1 }))).to.equal('EINVAL');
    expect(code(() => mapFile(engine, 99_999, { length: 1 }))).to.equal('EINVAL');
    const zero = openSync('/dev/zero', 'r+');
    fds.push(zero);
    expect(code(() => mapFile(engine, zero, { length: 1 }))).to.equal('EINVAL');
    const readOnly = openSync('/proc/self/exe', 'r');
    fds.push(readOnly);
    expect(code(() => mapFile(engine, readOnly, { length: 1 }))).to.equal('EIO');
    ftruncateSync(fd, 2 * MIB);
    expect(code(() => mapFile(engine, fd, { length: 2 * MIB }))).to.equal('ENOMEM');
    expect(engine.used).to.equal(0);
    const plain = await loadEngine({ memory: new ArrayBuffer(MIB) });
    expect(code(() => mapFile(plain, fd, { length: 1 }))).to.equal('EINVAL');
  });
});

function sharedMemory(): WebAssembly.Memory {
  return new WebAssembly.Memory({ initial: 128, maximum: 128, shared: true });
}
