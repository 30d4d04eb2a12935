import { expect, test } from "vitest";
import { ReportSchedule } from "../../../gpu-backend/engine/report-schedule.ts";

test("the first report of a connection is due at once", () => {
  expect(new ReportSchedule().dueAtMs()).toBeLessThan(0);
});

test("without a change a report is due 500 ms after the last", () => {
  const schedule = new ReportSchedule();
  schedule.sent(1000);
  expect(schedule.dueAtMs()).toBe(1500);
});

test("a change after a quiet while is due at once", () => {
  const schedule = new ReportSchedule();
  schedule.sent(1000);
  schedule.changed(1300);
  expect(schedule.dueAtMs()).toBe(1300);
});

test("changes within 100 ms of a report are told together when they are over", () => {
  const schedule = new ReportSchedule();
  schedule.sent(1000);
  for (const nowMs of [1001, 1050, 1099]) schedule.changed(nowMs);
  expect(schedule.dueAtMs()).toBe(1100);
});

test("a change that was told is none any more", () => {
  const schedule = new ReportSchedule();
  schedule.changed(1000);
  schedule.sent(1000);
  expect(schedule.dueAtMs()).toBe(1500);
});

test("a change later than the heartbeat does not put the heartbeat off", () => {
  const schedule = new ReportSchedule();
  schedule.sent(1000);
  schedule.changed(1600);
  expect(schedule.dueAtMs()).toBe(1500);
});

test("steps every millisecond make ten reports a second", () => {
  const schedule = new ReportSchedule();
  let reports = 0;
  for (let nowMs = 0; nowMs < 1000; nowMs++) {
    schedule.changed(nowMs);
    if (schedule.dueAtMs() > nowMs) continue;
    schedule.sent(nowMs);
    reports += 1;
  }
  expect(reports).toBe(10);
});
