import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { Feature, loadEngine } from '../../src/index.js';
import { Frontend } from '../../src/vhost-user/frontend.js';
import { CAPTURES, inFolder, vring } from './run.js';

const PROGRAM = fileURLToPath(new URL('../../dist/cli/vring.js', import.meta.url));

describe('vring vhost-user', () => {
  before(function () {
    if (process.platform !== 'linux') this.skip(); // vhost-user needs Linux
  });

  it('makes no sense: one line, exit code 2', async () => {
    const socket = ['--socket', '/nowhere/s'];
    for (const [argv, message] of [
      [['vhost-user'], /--socket/],
      [['vhost-user', ...socket], /--device/],
      [['vhost-user', ...socket, '--device', 'gpu'], /net-echo, net-replay, blk/],
      [['vhost-user', ...socket, '--device', 'blk'], /needs a file: a disk image/],
      [['vhost-user', ...socket, '--device', 'net-echo', 'x'], /takes no file/],
      [['vhost-user', ...socket, '--device', 'net-echo', '--memory', '4096'], /1 to 4095/],
    ] as const) {
      const { code, err } = await vring(...argv);
      expect(err).to.match(message);
      expect(code).to.equal(2);
    }
  });

  it('cannot be done: one line, exit code 1', () =>
    inFolder(async (folder) => {
      const file = join(folder, 'empty');
      await writeFile(file, '');
      for (const [argv, message] of [
        [['net-echo', '--socket', '/nowhere/s'], /binding to \/nowhere\/s failed: ENOENT/],
        [['net-echo', '--socket', file], /is no socket: remove it/],
        [['blk', '--socket', join(folder, 's'), join(folder, 'none')], /no such file/],
        [['blk', '--socket', join(folder, 's'), file], /at least one sector/],
        [['net-replay', '--socket', join(folder, 's'), file], /not a capture/],
      ] as const) {
        const { code, err } = await vring('vhost-user', '--memory', '16', '--device', ...argv);
        expect(err).to.match(message);
        expect(code).to.equal(1);
      }
    }));

  it('replays a capture, says what came of it, and ends when it is told to', () =>
    inFolder(async (folder) => {
      const socket = join(folder, 's');
      const capture = join(CAPTURES, 'web-mixed.pcap');
      const child = spawn(
        process.execPath,
        [PROGRAM, 'vhost-user', '--socket', socket, '--device', 'net-replay', '--memory', '64', capture],
        { stdio: ['ignore', 'ignore', 'pipe'] },
      );
      let err = '';
      let heard = (): void => {};
      child.stderr.on('data', (chunk: Buffer) => {
        err += chunk.toString();
        heard();
      });
      const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
      const says = async (text: string): Promise<void> => {
        while (!err.includes(text)) {
          if (child.exitCode !== null) throw new Error(`it ended: ${err}`);
          await new Promise<void>((resolve) => {
            heard = resolve;
          });
        }
      };
      try {
        await says('waiting for a connection');
        const engine = await loadEngine({ size: 1 << 23, shared: true });
        const frontend = await Frontend.connect({
          engine,
          socket,
          memory: 1 << 22,
          features: [Feature.VERSION_1],
        });
        let come = (): void => {};
        const receive = await frontend.startQueue({ index: 0, size: 64, interrupt: () => come() });
        await frontend.startQueue({ index: 1, size: 64 });
        const at = frontend.alloc(64 * 2048);
        for (let i = 0; i < 64; i++) receive.add([], [{ address: at + i * 2048, length: 2048 }], i);
        receive.kick();
        while (receive.getBuf() === undefined)
          await new Promise<void>((resolve) => {
            come = resolve;
          });
        frontend.close();
        await says('suppressed');
        expect(err).to.match(
          /disconnected; \d+ buffers used, 0 lost, notifications \d+ sent, \d+ suppressed/,
        );
      } finally {
        child.kill('SIGTERM');
      }
      expect(await ended).to.equal(0);
    }));
});
