import { readdirSync, readFileSync } from 'node:fs';

/** Processor time that all threads of a process have had until now, in nanoseconds. */
export function cpuTime(pid: number): number {
  let sum = 0;
  for (const task of readdirSync(`/proc/${pid}/task`))
    sum += Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0]);
  return sum;
}
