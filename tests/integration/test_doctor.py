"""`kvasir doctor` before stand-in engines: what works, what is missing, exit codes."""
import harness


class Doctor(harness.Case):
    def engine(self, *args):
        return self.start("kvasir-engine", "--port", 0, *args)

    def doctor(self, *workers, flags=()):
        args = [a for w in workers for a in ("--worker", w)]
        return self.run_once("kvasir", "doctor", *args, *flags)

    def worker(self, engine, *keys):
        return ",".join([self.base(engine), *(f"{k}={engine.ready[k]}" for k in keys)])

    def base(self, engine):
        return f"http://{engine.ready['http']}"

    def test_an_engine_that_lacks_nothing(self):
        engine = self.engine("--events", 0, "--replay", 0)
        for _ in range(2):  # each time with a prompt that is new to the engine
            told = self.doctor(self.worker(engine, "events", "replay"))
            self.assertEqual((told.returncode, told.stderr), (0, ""), told.stdout)
            self.assertNotIn("MISSING", told.stdout)
            for line in ("ok       usage", "ok       tokens", "ok       events", "ok       replay"):
                self.assertIn(line, told.stdout)
        self.assertRegex(told.stdout, r"told of [0-9]+ blocks of 16 tokens")

    def test_names_are_looked_up(self):
        engine = self.engine("--events", 0, "--replay", 0)
        worker = self.worker(engine, "events", "replay").replace("127.0.0.1", "localhost")
        told = self.doctor(worker)
        self.assertEqual((told.returncode, told.stderr), (0, ""), told.stdout)
        told = self.doctor(worker, flags=("--workers.deny", "127.0.0.0/8 ::1/128"))
        self.assertEqual(told.returncode, 1)
        self.assertIn("MISSING  health", told.stdout)

    def test_what_is_missing_is_named(self):
        engine = self.engine("--events", 0, "--replay", 0, "--scale-out", "off")
        told = self.doctor(self.worker(engine, "events"))
        self.assertEqual((told.returncode, told.stderr), (1, ""), told.stdout)
        self.assertIn("--enable-scale-out", told.stdout)
        self.assertIn("a lost event is lost for good", told.stdout)
        self.assertEqual(told.stdout.count("MISSING"), 2, told.stdout)
        told = self.doctor(self.worker(engine))
        self.assertIn("its cache is guessed", told.stdout)

    def test_each_engine_is_tried(self):
        up = self.engine("--events", 0, "--replay", 0)
        gone = self.engine()
        address = self.base(gone)
        gone.stop()
        told = self.doctor(address, self.worker(up, "events", "replay"))
        self.assertEqual((told.returncode, told.stderr), (1, ""), told.stdout)
        self.assertIn("no answer (connection refused)", told.stdout)
        self.assertEqual(told.stdout.count("MISSING"), 1, told.stdout)

    def test_engines_without_events_need_none(self):
        for kind in "llamacpp", "tgi":
            engine = self.engine("--engine", kind)
            told = self.doctor(self.worker(engine))
            self.assertEqual((told.returncode, told.stderr), (0, ""), told.stdout)
            self.assertIn("placed by the texts", told.stdout)

    def test_a_silent_publisher_is_told_from_a_wrong_port(self):
        engine = self.engine("--events", 0, "--replay", 0)
        harness.request(engine.at("http"), "POST", "/chaos", {"events": 0})
        told = self.doctor(self.worker(engine, "events"))
        self.assertIn("none came, though a prompt was stored", told.stdout)
        worker = f"{self.base(engine)},events=tcp://{engine.ready['http']}"
        self.assertIn("MISSING  events   no connection", self.doctor(worker).stdout)

    def test_without_workers_it_says_how_to_name_them(self):
        told = self.doctor()
        self.assertEqual((told.returncode, told.stdout), (2, ""))
        self.assertIn("--worker URL", told.stderr)


if __name__ == "__main__":
    harness.main()
