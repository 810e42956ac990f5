import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Failure } from '../../src/cli/errors.js';

// Beside this file in the bundle; where it was built to when the sources run.
const BESIDE = fileURLToPath(new URL('./vring.js', import.meta.url));
const BUILT = fileURLToPath(new URL('../../dist/cli/vring.js', import.meta.url));

/** Our own device in a process of its own, on one core. */
export class Ours {
  private constructor(private readonly child: ChildProcess) {}

  static async start(socket: string, core: number): Promise<Ours> {
    const program = existsSync(BESIDE) ? BESIDE : BUILT;
    const device = [program, 'vhost-user', '--socket', socket, '--device', 'net-echo', '--polling'];
    const child = spawn('taskset', ['-c', String(core), process.execPath, ...device], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    await new Promise<void>((resolve, reject) => {
      let text = '';
      child.stderr?.on('data', (chunk: Buffer) => {
        text += chunk.toString();
        if (text.includes('waiting for a connection')) resolve();
      });
      child.on('exit', () => reject(new Failure(`the device did not start: ${text}`)));
      child.on('error', (error) => reject(new Failure(`taskset does not run: ${error.message}`)));
    });
    return new Ours(child);
  }

  get pid(): number {
    return this.child.pid as number;
  }

  async quit(): Promise<void> {
    if (this.child.exitCode !== null) return;
    const gone = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGTERM');
    await gone;
  }
}
