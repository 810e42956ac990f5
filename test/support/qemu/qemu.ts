import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Qtest } from './qtest.js';

/** Bytes of the machine's RAM, all below its first hole: file offset and physical address are the same. */
export const RAM_BYTES = 16 * 1024 * 1024;

const START_MS = 20_000;

/** A BIOS that disables interrupts and halts. */
function haltingBios(): Uint8Array {
  const bios = new Uint8Array(0x10000);
  bios.set([0xfa, 0xf4, 0xeb, 0xfd], 0xfff0);
  return bios;
}

/** A QEMU whose devices are driven from outside, through qtest and the file that is its RAM. */
export class Qemu {
  private constructor(
    private readonly child: ChildProcess,
    private readonly exited: Promise<void>,
    readonly qtest: Qtest,
    /** Descriptor of the RAM file. */
    readonly ram: number,
    private readonly folders: string[],
  ) {}

  /**
   * Starts a machine that stands still.
   * @param options with its devices; `disable-legacy=on` spares it an option ROM
   */
  static async start(options: string[]): Promise<Qemu> {
    const folder = mkdtempSync(join(tmpdir(), 'vring-qemu-'));
    const shm = mkdtempSync('/dev/shm/vring-qemu-');
    const folders = [folder, shm];
    const [bios, socket, ram] = [join(folder, 'bios'), join(folder, 'qtest'), join(shm, 'ram')];
    writeFileSync(bios, haltingBios());
    const child = spawn(
      'qemu-system-x86_64',
      [
        ['-machine', 'q35,accel=tcg,memory-backend=m', '-m', `${RAM_BYTES / 2 ** 20}M`, '-bios', bios],
        ['-object', `memory-backend-file,id=m,size=${RAM_BYTES},mem-path=${ram},share=on`],
        ['-display', 'none', '-nodefaults', '-vga', 'none', '-serial', 'none', '-monitor', 'none'],
        ['-qtest', `unix:${socket},server=on,wait=off`, '-qtest-log', 'none'],
        options,
      ].flat(),
      { stdio: ['ignore', 'ignore', 'pipe'] },
    );
    let said = '';
    child.stderr?.on('data', (text) => {
      said += text;
    });
    let ended: string | undefined;
    const exited = new Promise<void>((resolve) => {
      child.once('error', (error) => {
        ended = String(error);
        resolve();
      });
      child.once('exit', (code, signal) => {
        ended ??= `exit ${code ?? signal}`;
        resolve();
      });
    });
    const kill = () => child.kill('SIGKILL');
    process.once('exit', kill);
    exited.then(() => process.off('exit', kill));

    for (const start = Date.now(); ; await sleep(10)) {
      const qtest = await Qtest.connect(socket).catch(() => undefined);
      if (qtest !== undefined) {
        // The RAM file has its size when the machine answers.
        await qtest.read(0, 1);
        return new Qemu(child, exited, qtest, openSync(ram, 'r+'), folders);
      }
      if (ended === undefined && Date.now() - start < START_MS) continue;
      child.kill('SIGKILL');
      for (const path of folders) rmSync(path, { recursive: true });
      throw new Error(`QEMU did not start: ${ended ?? 'no answer'}\n${said}`);
    }
  }

  /** Ends the process, without a warning, and waits until it is gone. */
  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.exited;
  }

  /** Ends the process and removes what belongs to it. Mappings of the RAM stay valid. */
  async stop(): Promise<void> {
    await this.kill();
    this.qtest.close();
    closeSync(this.ram);
    for (const path of this.folders) rmSync(path, { recursive: true });
  }
}
