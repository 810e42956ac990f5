import { Worker, type WorkerOptions } from 'node:worker_threads';

/**
 * A contender in a thread of its own. What V8 learns about one engine's types would otherwise slow the
 * other one down in a way that no user with one engine ever sees.
 */
export class Contender<Request, Reply> {
  private readonly worker: Worker;

  /**
   * @param entry name of the entry file beside the caller, without suffix
   * @param source `import.meta.url` of the caller
   */
  constructor(entry: string, source: string, workerData: unknown, execArgv?: string[]) {
    this.worker = start(entry, source, { workerData, ...(execArgv && { execArgv }) });
    this.worker.setMaxListeners(0);
  }

  /** Sends a request and waits for its reply. One at a time. */
  ask(request: Request): Promise<Reply> {
    const { worker } = this;
    return new Promise((resolve, reject) => {
      const done = () => {
        worker.off('message', onMessage).off('error', onError).off('exit', onExit);
      };
      const onMessage = (reply: Reply) => {
        done();
        resolve(reply);
      };
      const onError = (error: Error) => {
        done();
        reject(error);
      };
      const onExit = (code: number) => {
        done();
        reject(new Error(`the worker ended with exit code ${code}`));
      };
      worker.on('message', onMessage).on('error', onError).on('exit', onExit);
      worker.postMessage(request);
    });
  }

  async stop(): Promise<void> {
    await this.worker.terminate();
  }
}

/** The bundle has all of its files in one folder; sources are where their importer says. */
function start(entry: string, source: string, options: WorkerOptions): Worker {
  if (!source.endsWith('.ts')) return new Worker(new URL(`${entry}.js`, source), options);
  // Sources as they are: the loader of the main thread does not reach into workers.
  const url = JSON.stringify(new URL(`${entry}.ts`, source).href);
  return new Worker(`import('tsx/esm/api').then(({ register }) => { register(); return import(${url}); })`, {
    ...options,
    eval: true,
  });
}
