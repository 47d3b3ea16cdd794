"""What a hostile submission may try, tried on this machine: `autograder attack`.

What lives here: the corpus (one attack per file: its strategy, the layer that must stop it, the
hostile answer, an honest twin), the arenas in which it runs, and graders that lack one defence, so
that an attack can be shown to work where nothing stops it. What may not: anything that grading
imports. Nothing in an attack may harm this machine even where it succeeds: it has a temporary
folder, processes that it started itself, a loopback address, and fixed small amounts of everything.

    attack      what an attack is, and what became of one
    ground      what attacks are run on: jails with and without walls, a temporary folder
    arenas/     how a submission meets a grader, defended and not
    questions   the small lab that most attacks want points for
    corpus/     the attacks
    honest      programs that must pass, in honest_outside and honest_inside
    run, table, command
"""
